-- The one restore that runs: goes on, ends without effect, or makes its content the one that counts.
--
-- KEYS  1 content, 2 restoring
-- ARGV  1 'hold', 'release' or 'switch', 2 token, 3 milliseconds to hold it, 4 the present content, 5 the next one, 6 channel
-- Answer  1 done, 0 it is not this one that runs any more

if redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
if ARGV[1] == 'hold' then
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
elseif ARGV[1] == 'release' then
  redis.call('DEL', KEYS[2])
else
  if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[4] then return 0 end
  redis.call('SET', KEYS[1], ARGV[5])
  redis.call('DEL', KEYS[2])
  tell(ARGV[6], 'names')
  tell(ARGV[6], 'values')
end
return 1
