-- Makes a trace, such as the one that all names share, at least as late as this one.
--
-- KEYS  1 trace
-- ARGV  1 generation, 2 version, 3 epoch
-- Answer  1

for place, field in ipairs({'g', 'v', 'e'}) do
  local known = redis.call('HGET', KEYS[1], field)
  if not known or is_below(known, ARGV[place]) then redis.call('HSET', KEYS[1], field, ARGV[place]) end
end
return 1
