-- Writes a numbered record of a content that does not count yet. Asked again, it changes nothing.
--
-- KEYS  1 number of the content that counts, 2 events or audit
-- ARGV  1 the content being written, 2 number, 3 the record as bytes
-- Answer  1 done, 0 it is there, or too late

local id = ARGV[2] .. '-0'
if redis.call('GET', KEYS[1]) == ARGV[1] or #redis.call('XRANGE', KEYS[2], id, id) > 0 then return 0 end
redis.call('XADD', KEYS[2], id, 'd', ARGV[3])
return 1
