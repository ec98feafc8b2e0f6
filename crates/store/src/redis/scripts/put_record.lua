-- Writes a numbered record of a content that does not count yet. Asked again, it changes nothing.
--
-- KEYS  1 events or audit
-- ARGV  1 number, 2 the record as bytes
-- Answer  1

local id = ARGV[1] .. '-0'
if #redis.call('XRANGE', KEYS[1], id, id) == 0 then redis.call('XADD', KEYS[1], id, 'd', ARGV[2]) end
return 1
