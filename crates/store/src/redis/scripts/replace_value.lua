-- Replaces a value if it still is the expected one; see Store::replace_value.
--
-- KEYS  1 content, 2 restoring, 3 values, 4 records, 5 numbers
-- ARGV  1 the content asked for, 2 name, 3 '1' if a value is expected, 4 the expected value, 5 the new value, 6 channel,
--       then records (kind, bytes)
-- Answer  {1} done, {0} it was another, {2} the content is another or being replaced

if not content_counts(KEYS[1], KEYS[2], ARGV[1]) then return {2} end
local present = redis.call('HGET', KEYS[3], ARGV[2])
if ARGV[3] == '1' then
  if present ~= ARGV[4] then return {0} end
elseif present then
  return {0}
end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[5])
redis.call('HINCRBY', KEYS[5], 'values', 1)
for place = 7, #ARGV, 2 do record(KEYS[4], ARGV[place], ARGV[place + 1]) end
trim_records(KEYS[4])
tell(ARGV[6], 'values')
return {1}
