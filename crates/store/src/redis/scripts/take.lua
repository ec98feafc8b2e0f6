-- Takes tokens out of a bucket: the rule of anteroom_core::bucket::take, number by number. A test compares the two bit for bit.
--
-- KEYS  1 bucket: a hash of tokens, last_refill (microseconds since 1970), limit ("tokens/micros/burst"); goes when it is full
-- ARGV  1-3 limit: so many tokens, in so many microseconds, burst; 4 cost; 5 moment in microseconds, '' for that of this server
-- Answer  {1 if allowed, else 0; tokens left; microseconds until it would be allowed, -1 for never; moment when full; moment of now}
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

local tokens, micros, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local limit = ARGV[1] .. '/' .. ARGV[2] .. '/' .. ARGV[3]
local now = tonumber(ARGV[5])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = math.min(now, MOMENT_MAX)

local kept, last = burst, now
-- Whether there is something under this key, whether it is a bucket, and whether it has to be written though nothing is taken.
local is_there, is_sound, is_changed = true, false, false
local stored = redis.pcall('HMGET', KEYS[1], 'tokens', 'last_refill', 'limit')
if not stored.err then
  is_there = stored[1] or stored[2] or stored[3]
  local stored_limit = stored[3] or ''
  local stored_last = whole(stored[2], MOMENT_MAX)
  if stored_limit == limit then
    local stored_tokens = whole(stored[1], burst)
    if stored_tokens and stored_last then
      kept, last, is_sound = stored_tokens, stored_last, true
    end
  else
    -- Under another limit until now: what it brought is brought, and nothing more is given.
    local old_tokens, old_micros, old_burst = limit_of(stored_limit)
    local stored_tokens = old_tokens and whole(stored[1], old_burst)
    if stored_tokens and stored_last then
      local flowed = refilled(old_tokens, old_micros, old_burst, stored_tokens, stored_last, now)
      if flowed < old_burst then kept = math.min(flowed, burst) end
      last, is_sound, is_changed = math.max(now, stored_last), true, true
    end
  end
end

local flowed, flowed_last = refilled(tokens, micros, burst, kept, last, now)
local is_allowed = cost <= flowed
local retry_after = 0
if is_allowed then
  flowed = flowed - cost
  if cost > 0 then kept, last, is_changed = flowed, flowed_last, true end
elseif cost > burst then
  retry_after = -1
else
  retry_after = last + micros_for(tokens, micros, cost - kept) - now
end
local full_at = last + micros_for(tokens, micros, burst - kept)

if is_there and (not is_sound or (is_changed and kept == burst)) then redis.call('DEL', KEYS[1]) end
if is_changed and kept < burst then
  redis.call('HSET', KEYS[1], 'tokens', as_text(kept), 'last_refill', as_text(last), 'limit', limit)
  redis.call('PEXPIREAT', KEYS[1], as_text(math.ceil(full_at / 1000)))
end
return {is_allowed and 1 or 0, flowed, retry_after, math.max(full_at, now), now}
