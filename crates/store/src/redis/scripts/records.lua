-- Pending records of one scope, oldest first.
--
-- KEYS  1 records
-- ARGV  1 '1' if the lineage may be asked for, 2 at most so many
-- Answer  {lineage, {id, {kind, bytes}}...}

local answer = {lineage_now(ARGV[1])}
for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', ARGV[2])) do answer[#answer + 1] = entry end
return answer
