-- Blocks every change of a room while a backup is restored. A room that is not there is frozen, too: then it cannot be made.
--
-- KEYS  1 room
-- ARGV  1 token of the restore
-- Answer  1

redis.call('HSET', KEYS[1], 'f', ARGV[1])
return 1
