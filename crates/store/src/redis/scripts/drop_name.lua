-- Forgets a name, unless a room is about to be made under it.
--
-- KEYS  1 names
-- ARGV  1 name, 2 the second it was noted, as was seen
-- Answer  1 if it did

if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('ZREM', KEYS[1], ARGV[1])
