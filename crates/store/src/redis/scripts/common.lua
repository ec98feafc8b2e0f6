-- Put before every script. No rule of admission is in any of them: they remember and compare.

-- Which unbroken history this is: the first 32 digits of the replication id. Where the user may not ask for it, always the same.
local function lineage_now(may_ask)
  if may_ask ~= '1' then return string.rep('0', 32) end
  local told = redis.call('INFO', 'replication')
  if not string.find(told, 'role:master', 1, true) then
    error({err = 'READONLY this server is not a primary any more'})
  end
  return string.sub(string.match(told, 'master_replid:(%x+)'), 1, 32)
end

-- Whether one decimal number is below another. Lua's own numbers are exact up to 2^53 only.
local function is_below(one, other)
  if #one ~= #other then return #one < #other end
  return one < other
end

local function as_text(number) return string.format('%.0f', number) end

-- The number of a node's last write to the room that was born with this version, and the answer to it.
local function last_write(node_key, birth)
  local of, number, joined = string.match(redis.call('GET', node_key) or '', '^(%d+) (%d+) (%d+)$')
  if of == birth then return number, joined end
end

local NODE_SECONDS = 86400

local function remember_write(node_key, birth, number, joined)
  redis.call('SET', node_key, birth .. ' ' .. number .. ' ' .. joined, 'EX', NODE_SECONDS)
end

-- {0} without a room, else {0, lineage now, lineage of the last commit, the node's last number or '', joined, room, taken...}
local function snapshot(room_key, taken_key, node_key, lineage)
  local stored = redis.call('HMGET', room_key, 'b', 'r', 'j', 's')
  if not stored[4] then return {0} end
  local number = last_write(node_key, stored[1])
  local answer = {0, lineage, stored[2], number or '', stored[3], stored[4]}
  for _, part in ipairs(redis.call('HGETALL', taken_key)) do answer[#answer + 1] = part end
  return answer
end

-- Adds a pending record, under the time of now in microseconds; a clock that went back changes no order.
local function record(records_key, kind, bytes)
  local now = redis.call('TIME')
  local id = now[1] .. string.format('%06d', now[2]) .. '-*'
  local added = redis.pcall('XADD', records_key, id, kind, bytes)
  if type(added) == 'table' and added.err then redis.call('XADD', records_key, '*', kind, bytes) end
end

-- How many records of one scope may be pending.
local RECORDS_MAX = 400000

local function trim_records(records_key) redis.call('XTRIM', records_key, 'MAXLEN', '~', RECORDS_MAX) end

-- Trims a stream of events, and notes what is gone: through which number, and how many.
local function drop_events(stream, numbers, kind, strategy, threshold)
  local dropped = redis.call('XTRIM', stream, strategy, '=', threshold)
  if dropped == 0 then return end
  local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  local through = redis.call('HGET', numbers, 'events')
  if first then through = as_text(tonumber(string.match(first[1], '^%d+')) - 1) end
  redis.call('HSET', numbers, 'dropped:' .. kind, through)
  redis.call('HINCRBY', numbers, 'count:' .. kind, dropped)
end

-- Nothing relies on notifications, so a user who may not publish is no failure.
local function tell(channel, what) redis.pcall('SPUBLISH', channel, what) end

-- Whether the content asked for is the one that counts, and is not being replaced.
local function content_counts(content_key, restoring_key, content)
  return (redis.call('GET', content_key) or '0') == content and not redis.call('GET', restoring_key)
end
