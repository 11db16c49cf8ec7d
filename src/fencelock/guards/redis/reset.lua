-- Set a mark, whatever it was: ARGV[1] is the mark, or 0 to remove it, ARGV[2] its ttl in ms.
if ARGV[1] == '0' then
  redis.call('DEL', KEYS[1])
  return 1
end
local value = ARGV[1] .. ' ' .. redis.call('TIME')[1]
if ARGV[2] == '0' then
  redis.call('SET', KEYS[1], value)
else
  redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
end
return 1
