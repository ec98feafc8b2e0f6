-- A room as of one moment; see Store::load. A restore that freezes it may look on.
--
-- KEYS  1 room, 2 taken, 3 node, then hashes whose values are wanted as of the same moment
-- ARGV  1 '1' if the lineage may be asked for, 2 '1' to look at a frozen room
-- Answer  {2, token} frozen by a restore, else {a snapshot, values of each hash...}

local lineage = lineage_now(ARGV[1])
local frozen = redis.call('HGET', KEYS[1], 'f')
if frozen and ARGV[2] ~= '1' then return {2, frozen} end
local answer = {snapshot(KEYS[1], KEYS[2], KEYS[3], lineage)}
for place = 4, #KEYS do answer[#answer + 1] = redis.call('HVALS', KEYS[place]) end
return answer
