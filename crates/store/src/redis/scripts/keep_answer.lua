-- Keeps the answer to a repeatable call, unless one is kept already; see Store::keep_answer.
--
-- KEYS  1 answers, 2 answers by the moment they go
-- ARGV  1 key, 2 answer ('' only looks), 3 milliseconds to keep it, 4 how many are kept
-- Answer  the answer that is kept already, or nothing

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local over = redis.call('ZSCORE', KEYS[2], ARGV[1])
if over and tonumber(over) > now then return redis.call('HGET', KEYS[1], ARGV[1]) end
if ARGV[2] == '' then return false end

local function forget(keys)
  for _, key in ipairs(keys) do
    redis.call('ZREM', KEYS[2], key)
    redis.call('HDEL', KEYS[1], key)
  end
end
forget(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', as_text(now), 'LIMIT', 0, 100))
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], as_text(now + tonumber(ARGV[3])), ARGV[1])
local surplus = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[4])
if surplus > 0 then forget(redis.call('ZRANGE', KEYS[2], 0, surplus - 1)) end
-- A hash without additions expires as a whole.
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[3]) then redis.call('PEXPIRE', key, ARGV[3]) end
end
return false
