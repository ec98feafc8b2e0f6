-- Takes a work or goes on with it; see Store::hold_work.
--
-- KEYS  1 work
-- ARGV  1 node, 2 milliseconds
-- Answer  1 if the node has it now, 0 if another has

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
