-- Drops the events up to a number; see Store::drop_events.
--
-- KEYS  1 content, 2 events of rooms, 3 events of visitors, 4 numbers
-- ARGV  1 the content asked for, 2 the first number that is kept
-- Answer  {1} done, {2} the content is another

if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[1] then return {2} end
drop_events(KEYS[2], KEYS[4], 'e', 'MINID', ARGV[2] .. '-0')
drop_events(KEYS[3], KEYS[4], 'v', 'MINID', ARGV[2] .. '-0')
return {1}
