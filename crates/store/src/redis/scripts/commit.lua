-- Writes a change of a room if its version is still the expected one; see Store::commit.
--
-- KEYS  1 room, 2 taken, 3 node, 4 records, 5 trace, then for each generation written to: sessions, ending, ended
-- ARGV  1 '1' if the lineage may be asked for, 2 number, 3 expected version ('' if the room must not exist), 4 lineage,
--       5 '1' if it mends, 6 '1' if it opens a line, 7 base of its newest line, 8 joined before, 9 joins it adds,
--       10 last position there is, 11 version, 12 epoch, 13 generation, 14 the room as bytes,
--       15 sessions that ended before this may go, 16-18 generation, version and epoch of the shared trace ('' if there is none),
--       19-20 epoch and last position the caller has seen there ('' if the lineage protects them), 21 channel, 22 what to tell,
--       then lists, each with its length first: sessions (index of its generation, position, bytes, end, '1' if active),
--       chunks (field, bytes or '' to delete), prefixes of chunk fields to delete, keys to delete, records (kind, bytes)
-- Answer  {1, joined} done, {2, token} frozen by a restore, else a snapshot (see above) that it conflicts with

local lineage = lineage_now(ARGV[1])
local stored = redis.call('HMGET', KEYS[1], 'v', 'j', 'b', 'r', 'e', 'f')
local version, joined, birth, stored_lineage, epoch, frozen = unpack(stored)
local function conflict() return snapshot(KEYS[1], KEYS[2], KEYS[3], lineage) end

if frozen then return {2, frozen} end
if version then
  local number, answered = last_write(KEYS[3], birth)
  if number == ARGV[2] then return {1, answered} end
  if number and is_below(ARGV[2], number) then return conflict() end
  if ARGV[4] ~= lineage then return conflict() end
  if stored_lineage ~= lineage and ARGV[5] ~= '1' then return conflict() end
end
if (version or '') ~= ARGV[3] then return conflict() end
if not version then
  birth = ARGV[11]
  local function is_later(generation, than_version, than_epoch)
    return is_below(generation, ARGV[13]) and is_below(than_version, ARGV[11]) and is_below(than_epoch, ARGV[12])
  end
  local trace = redis.call('HMGET', KEYS[5], 'g', 'v', 'e')
  if trace[1] and not is_later(trace[1], trace[2], trace[3]) then return {0} end
  if ARGV[16] ~= '' and not is_later(ARGV[16], ARGV[17], ARGV[18]) then return {0} end
end

local after
if not version or ARGV[6] == '1' then
  if version and joined ~= ARGV[8] then return conflict() end
  after = tonumber(ARGV[7]) + tonumber(ARGV[9])
else
  after = tonumber(joined)
  if epoch == ARGV[19] then after = math.max(after, tonumber(ARGV[20])) end
  after = after + tonumber(ARGV[9])
end
if after > tonumber(ARGV[10]) then return conflict() end
after = as_text(after)

redis.call('HSET', KEYS[1], 'b', birth, 'v', ARGV[11], 'e', ARGV[12], 'g', ARGV[13], 'j', after, 'r', lineage, 's', ARGV[14])
remember_write(KEYS[3], birth, ARGV[2], after)
if not version then redis.call('DEL', KEYS[5]) end

local place = 22
local function next_argument()
  place = place + 1
  return ARGV[place]
end

for _ = 1, tonumber(next_argument()) do
  local first = 6 + (tonumber(next_argument()) - 1) * 3
  local position, bytes, finish, active = next_argument(), next_argument(), next_argument(), next_argument()
  redis.call('HSET', KEYS[first], position, bytes)
  if active == '1' then
    redis.call('ZADD', KEYS[first + 1], finish, position)
  else
    redis.call('ZREM', KEYS[first + 1], position)
  end
  redis.call('ZADD', KEYS[first + 2], finish, position)
end
for _ = 1, tonumber(next_argument()) do
  local field, bytes = next_argument(), next_argument()
  if bytes == '' then redis.call('HDEL', KEYS[2], field) else redis.call('HSET', KEYS[2], field, bytes) end
end
for _ = 1, tonumber(next_argument()) do
  local prefix = next_argument()
  for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
    if string.sub(field, 1, #prefix) == prefix then redis.call('HDEL', KEYS[2], field) end
  end
end
for _ = 1, tonumber(next_argument()) do redis.call('UNLINK', next_argument()) end
local records = tonumber(next_argument())
for _ = 1, records do
  local kind = next_argument()
  record(KEYS[4], kind, next_argument())
end
if records > 0 then trim_records(KEYS[4]) end

-- What ended long ago goes, a few at a time; one that still counts as active is left to the tick.
for first = 6, #KEYS, 3 do
  for _, position in ipairs(redis.call('ZRANGEBYSCORE', KEYS[first + 2], '-inf', '(' .. ARGV[15], 'LIMIT', 0, 100)) do
    if not redis.call('ZSCORE', KEYS[first + 1], position) then
      redis.call('ZREM', KEYS[first + 2], position)
      redis.call('HDEL', KEYS[first], position)
    end
  end
end
tell(ARGV[21], ARGV[22])
return {1, after}
