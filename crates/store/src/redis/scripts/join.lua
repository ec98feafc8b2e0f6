-- Adds visitors to a room's newest line if its epoch is still the given one; see Store::join.
--
-- KEYS  1 room, 2 taken, 3 node
-- ARGV  1 '1' if the lineage may be asked for, 2 number, 3 epoch, 4 lineage, 5 how many, 6 last position there is,
--       7-8 epoch and last position the caller has seen there ('' if the lineage protects them)
-- Answer  {1, last position joined}, {2, token} frozen by a restore, else a snapshot that it conflicts with

local lineage = lineage_now(ARGV[1])
local stored = redis.call('HMGET', KEYS[1], 'e', 'j', 'b', 'r', 'f')
local epoch, joined, birth, stored_lineage, frozen = unpack(stored)
if frozen then return {2, frozen} end
if not epoch then return {0} end
local number, answered = last_write(KEYS[3], birth)
if number == ARGV[2] then return {1, answered} end

local fits = epoch == ARGV[3] and lineage == ARGV[4] and stored_lineage == lineage
if number and is_below(ARGV[2], number) then fits = false end
local after = tonumber(joined)
if epoch == ARGV[7] then after = math.max(after, tonumber(ARGV[8])) end
after = after + tonumber(ARGV[5])
if not fits or after > tonumber(ARGV[6]) then return snapshot(KEYS[1], KEYS[2], KEYS[3], lineage) end
after = as_text(after)
redis.call('HSET', KEYS[1], 'j', after)
remember_write(KEYS[3], birth, ARGV[2], after)
return {1, after}
