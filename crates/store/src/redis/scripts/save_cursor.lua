-- Saves a cursor if the node has the work; see Store::save_cursor.
--
-- KEYS  1 content, 2 restoring, 3 values, 4 work
-- ARGV  1 the content asked for, 2 node, 3 name of the value, 4 the cursor as bytes
-- Answer  {1} done, {0} another node has the work, or nobody, {2} the content is another or being replaced

if not content_counts(KEYS[1], KEYS[2], ARGV[1]) then return {2} end
if redis.call('GET', KEYS[4]) ~= ARGV[2] then return {0} end
redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
return {1}
