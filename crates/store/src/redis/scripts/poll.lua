-- Polls rooms and takes or extends their leases; see Store::poll.
--
-- KEYS  for each room: room, lease, records
-- ARGV  1 '1' if the lineage may be asked for, 2 node, 3 milliseconds of the lease
-- Answer  {lineage, then for each room: '' without one, '2' if a restore froze it, else
--         {generation, version, joined, lineage of the last commit, 1 if the node has the lease, how many records are pending}}

local answer = {lineage_now(ARGV[1])}
for place = 1, #KEYS, 3 do
  local stored = redis.call('HMGET', KEYS[place], 'g', 'v', 'j', 'r', 'f')
  if stored[5] then
    answer[#answer + 1] = '2'
  elseif not stored[2] then
    answer[#answer + 1] = ''
  else
    local holder = redis.call('GET', KEYS[place + 1])
    local holds = 0
    if not holder or holder == ARGV[2] then
      -- Where nothing can be written (too few replicas), no node has a lease; the poll is good all the same.
      local taken = redis.pcall('SET', KEYS[place + 1], ARGV[2], 'PX', ARGV[3])
      if not (type(taken) == 'table' and taken.err) then holds = 1 end
    end
    answer[#answer + 1] = {stored[1], stored[2], stored[3], stored[4], holds, redis.call('XLEN', KEYS[place + 2])}
  end
end
return answer
