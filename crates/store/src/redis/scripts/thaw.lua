-- Lets a room go that was frozen by a restore which is over.
--
-- KEYS  1 room
-- ARGV  1 token of that restore
-- Answer  1 if it did

if redis.call('HGET', KEYS[1], 'f') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'f')
return 1
