-- What concerns the store as a whole: which content counts, whether it is still the same store, what has changed, what time it is.
--
-- KEYS  1 content, 2 mark, 3 numbers, 4 restoring
-- ARGV  1 '1' if the lineage may be asked for
-- Answer  {lineage, content, mark or '', values replaced, names changed, token of a restore or '', seconds, microseconds}

local lineage = lineage_now(ARGV[1])
local changed = redis.call('HMGET', KEYS[3], 'values', 'names')
local now = redis.call('TIME')
return {lineage, redis.call('GET', KEYS[1]) or '0', redis.call('GET', KEYS[2]) or '', changed[1] or '0', changed[2] or '0',
  redis.call('GET', KEYS[4]) or '', now[1], now[2]}
