-- Deletes a room if its version is still the expected one; see Store::delete_room.
--
-- KEYS  1 room, 2 trace, 3 records, then every other key of the room
-- ARGV  1 expected version, 2 channel, then records (kind, bytes)
-- Answer  {1} done, {0} conflict, {2, token} frozen by a restore

local stored = redis.call('HMGET', KEYS[1], 'v', 'g', 'e', 'f')
if stored[4] then return {2, stored[4]} end
if stored[1] ~= ARGV[1] then return {0} end
redis.call('HSET', KEYS[2], 'g', stored[2], 'v', stored[1], 'e', stored[3])
for place = 3, #ARGV, 2 do record(KEYS[3], ARGV[place], ARGV[place + 1]) end
trim_records(KEYS[3])
redis.call('UNLINK', KEYS[1])
for place = 4, #KEYS do redis.call('UNLINK', KEYS[place]) end
tell(ARGV[2], 'room')
return {1}
