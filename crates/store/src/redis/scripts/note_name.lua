-- Notes the name of a room that is about to be made, so that it is found among all rooms.
--
-- KEYS  1 content, 2 restoring, 3 names, 4 shared trace
-- ARGV  1 the content asked for, 2 name
-- Answer  {1, generation, version, epoch of the shared trace or three times ''}, {2} the content is another or being replaced

if not content_counts(KEYS[1], KEYS[2], ARGV[1]) then return {2} end
redis.call('ZADD', KEYS[3], redis.call('TIME')[1], ARGV[2])
local shared = redis.call('HMGET', KEYS[4], 'g', 'v', 'e')
return {1, shared[1] or '', shared[2] or '', shared[3] or ''}
