-- Takes tokens out of buckets: the rule of anteroom_core::bucket::take_all, number by number. A test compares the two bit for bit.
-- All of them are taken from, or none.
--
-- KEYS  each a bucket: a hash of tokens, last_refill (microseconds since 1970), limit ("tokens/micros/burst"); goes when it is full
-- ARGV  1 moment in microseconds, '' for that of this server; then for each key four:
--       limit: so many tokens, in so many microseconds, burst; cost, below zero for tokens that are put back
-- Answer  for each key {1 if allowed, else 0; tokens left; microseconds until it would be allowed, -1 for never; moment when full;
--         moment of now}, all in one list
--
-- Lua's numbers are exact up to 2^53. Limit::new accepts no limit for which a product here, or a moment, would be larger.
-- What is not a bucket, or not a sound one, counts as none: a full one.

local EXACT_MAX = 9007199254740992
local FILL_MAX = 3155760000000000
local MOMENT_MAX = EXACT_MAX - 1 - FILL_MAX
local floor = math.floor

local function as_text(number) return string.format('%.0f', number) end

-- The whole number that a text is, if it is one up to a limit.
local function whole(text, max)
  if not text or #text > 16 or not string.find(text, '^%d+$') then return nil end
  local number = tonumber(text)
  if number <= max then return number end
end

-- After how many microseconds so many tokens have come back.
local function micros_for(tokens, micros, wanted)
  local turns = floor(wanted / tokens)
  return turns * micros + math.ceil((wanted - turns * tokens) * micros / tokens)
end

-- How many tokens come back in this time, which is not longer than that of a burst.
local function tokens_in(tokens, micros, elapsed)
  local turns = floor(elapsed / micros)
  return turns * tokens + floor((elapsed - turns * micros) * tokens / micros)
end

-- With the tokens that have come back until now.
local function refilled(tokens, micros, burst, kept, last, now)
  local elapsed = math.max(now - last, 0)
  if elapsed >= micros_for(tokens, micros, burst - kept) then return burst, math.max(now, last) end
  local back = tokens_in(tokens, micros, elapsed)
  return kept + back, last + micros_for(tokens, micros, back)
end

-- The parts of a limit, if it is one.
local function limit_of(text)
  local tokens, micros, burst = string.match(text, '^(%d+)/(%d+)/(%d+)$')
  tokens, micros, burst = whole(tokens, EXACT_MAX), whole(micros, EXACT_MAX), whole(burst, FILL_MAX)
  if not (tokens and micros and burst) or tokens < 1 or burst < 1 or tokens > micros then return nil end
  if tokens * micros > EXACT_MAX or burst / tokens * micros > FILL_MAX then return nil end
  return tokens, micros, burst
end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = math.min(now, MOMENT_MAX)

-- A bucket as it is: with the present limit, and without what has come back since.
local function read(number)
  local at = number * 4 - 2
  local bucket = {
    key = KEYS[number], limit = ARGV[at] .. '/' .. ARGV[at + 1] .. '/' .. ARGV[at + 2],
    tokens = tonumber(ARGV[at]), micros = tonumber(ARGV[at + 1]), burst = tonumber(ARGV[at + 2]), cost = tonumber(ARGV[at + 3]),
    -- Whether there is something under this key, whether it is a bucket, and whether it has to be written though nothing is taken.
    is_there = true, is_sound = false, is_changed = false,
  }
  bucket.kept, bucket.last = bucket.burst, now
  local stored = redis.pcall('HMGET', bucket.key, 'tokens', 'last_refill', 'limit')
  if stored.err then return bucket end
  bucket.is_there = stored[1] or stored[2] or stored[3]
  local stored_limit = stored[3] or ''
  local stored_last = whole(stored[2], MOMENT_MAX)
  if stored_limit == bucket.limit then
    local stored_tokens = whole(stored[1], bucket.burst)
    if stored_tokens and stored_last then
      bucket.kept, bucket.last, bucket.is_sound = stored_tokens, stored_last, true
    end
    return bucket
  end
  -- Under another limit until now: what it brought is brought, and nothing more is given.
  local old_tokens, old_micros, old_burst = limit_of(stored_limit)
  local stored_tokens = old_tokens and whole(stored[1], old_burst)
  if stored_tokens and stored_last then
    local flowed = refilled(old_tokens, old_micros, old_burst, stored_tokens, stored_last, now)
    if flowed < old_burst then bucket.kept = math.min(flowed, bucket.burst) end
    bucket.last, bucket.is_sound, bucket.is_changed = math.max(now, stored_last), true, true
  end
  return bucket
end

local buckets, are_all_allowed = {}, true
for number = 1, #KEYS do
  local bucket = read(number)
  bucket.flowed, bucket.flowed_last =
    refilled(bucket.tokens, bucket.micros, bucket.burst, bucket.kept, bucket.last, now)
  bucket.is_allowed = bucket.cost <= bucket.flowed
  are_all_allowed = are_all_allowed and bucket.is_allowed
  buckets[number] = bucket
end

local answer = {}
for number = 1, #KEYS do
  local bucket = buckets[number]
  local burst = bucket.burst
  local retry_after = 0
  if bucket.is_allowed then
    if are_all_allowed and bucket.cost ~= 0 then
      bucket.flowed = math.min(bucket.flowed - bucket.cost, burst)
      bucket.kept, bucket.last, bucket.is_changed = bucket.flowed, bucket.flowed_last, true
    end
  elseif bucket.cost > burst then
    retry_after = -1
  else
    retry_after = bucket.last + micros_for(bucket.tokens, bucket.micros, bucket.cost - bucket.kept) - now
  end
  local full_at = bucket.last + micros_for(bucket.tokens, bucket.micros, burst - bucket.kept)
  if bucket.is_there and (not bucket.is_sound or (bucket.is_changed and bucket.kept == burst)) then
    redis.call('DEL', bucket.key)
  end
  if bucket.is_changed and bucket.kept < burst then
    redis.call('HSET', bucket.key, 'tokens', as_text(bucket.kept), 'last_refill', as_text(bucket.last), 'limit', bucket.limit)
    redis.call('PEXPIREAT', bucket.key, as_text(math.ceil(full_at / 1000)))
  end
  local at = number * 5 - 4
  answer[at], answer[at + 1], answer[at + 2] = bucket.is_allowed and 1 or 0, bucket.flowed, retry_after
  answer[at + 3], answer[at + 4] = math.max(full_at, now), now
end
return answer
