-- Forgets the trace of a deleted room, if it still is this one.
--
-- KEYS  1 trace
-- ARGV  1 version
-- Answer  1 if it did

if redis.call('HGET', KEYS[1], 'v') ~= ARGV[1] then return 0 end
redis.call('UNLINK', KEYS[1])
return 1
