-- Gives records their numbers and puts them into the outbox and the audit, each once, in the order they come in.
--
-- KEYS  1 content, 2 events of rooms, 3 audit, 4 collected, 5 numbers, 6 events of visitors
-- ARGV  1 the content asked for, 2 how many events of rooms are kept, 3 how many audit records are kept, 4 how many events of visitors
--       are kept, then records (place it comes from, lineage there, id, kind 'e', 'v' or 'a', bytes)
-- Answer  {1} done, {2} the content is another

if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[1] then return {2} end
local function is_after(id, other)
  local time, sequence = string.match(id, '^(%d+)-(%d+)$')
  local other_time, other_sequence = string.match(other, '^(%d+)-(%d+)$')
  return is_below(other_time, time) or (time == other_time and is_below(other_sequence, sequence))
end

local streams = {e = KEYS[2], v = KEYS[6], a = KEYS[3]}
local collected, added = {}, {}
for place = 5, #ARGV, 5 do
  local source, lineage, id, kind = ARGV[place], ARGV[place + 1], ARGV[place + 2], ARGV[place + 3]
  local last = collected[source] or redis.call('HGET', KEYS[4], source) or ''
  local last_lineage, last_id = string.match(last, '^(%S+) (%S+)$')
  -- Under another lineage nobody knows which of them were collected: then rather twice than never.
  if last_lineage ~= lineage or is_after(id, last_id) then
    local number = redis.call('HINCRBY', KEYS[5], kind == 'a' and 'audit' or 'events', 1)
    redis.call('XADD', streams[kind], as_text(number) .. '-0', 'd', ARGV[place + 4])
    added[kind] = true
    collected[source] = lineage .. ' ' .. id
  else
    collected[source] = last
  end
end
for source, last in pairs(collected) do redis.call('HSET', KEYS[4], source, last) end
for kind, limit in pairs({e = ARGV[2], v = ARGV[4]}) do
  if added[kind] then drop_events(streams[kind], KEYS[5], kind, 'MAXLEN', limit) end
end
if added.a then redis.call('XTRIM', KEYS[3], 'MAXLEN', '=', ARGV[3]) end
return {1}
