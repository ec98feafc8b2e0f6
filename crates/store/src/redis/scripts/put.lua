-- Writes something of a content that does not count yet; once it does, it is too late. A restore sends again what was not answered,
-- and what it sent first may still be in flight when the content has long been in use.
--
-- KEYS  1 what tells that it is too late: the room, or the number of the content that counts; 2 what to write to
-- ARGV  1 'v' for a field of the room, or the number of the content being written, 2 command, then its arguments
-- Answer  1 done, 0 too late

local is_room = ARGV[1] == 'v'
if is_room and redis.call('HEXISTS', KEYS[1], 'v') == 1 then return 0 end
if not is_room and redis.call('GET', KEYS[1]) == ARGV[1] then return 0 end
redis.call(ARGV[2], KEYS[2], unpack(ARGV, 3))
return 1
