-- Writes records that come with no other write; see Store::append_events.
--
-- KEYS  1 content, 2 restoring, 3 records
-- ARGV  1 the content asked for, then records (kind, bytes)
-- Answer  {1} done, {2} the content is another or being replaced

if not content_counts(KEYS[1], KEYS[2], ARGV[1]) then return {2} end
for place = 2, #ARGV, 2 do record(KEYS[3], ARGV[place], ARGV[place + 1]) end
trim_records(KEYS[3])
return {1}
