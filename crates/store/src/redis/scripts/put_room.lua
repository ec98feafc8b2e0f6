-- Writes a room of a content that does not count yet, as if it had been committed here. Everything else of it has been written.
--
-- KEYS  1 room
-- ARGV  1 '1' if the lineage may be asked for, 2 version, 3 epoch, 4 generation, 5 last position joined, 6 the room as bytes
-- Answer  1 done, 0 it is there

if redis.call('HEXISTS', KEYS[1], 'v') == 1 then return 0 end
redis.call('HSET', KEYS[1], 'b', ARGV[2], 'v', ARGV[2], 'e', ARGV[3], 'g', ARGV[4], 'j', ARGV[5], 'r', lineage_now(ARGV[1]),
  's', ARGV[6])
return 1
