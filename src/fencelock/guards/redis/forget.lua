-- Remove a mark that was not raised for ARGV[1] seconds.
local seen = redis.call('GET', KEYS[1])
local raised = seen and tonumber(string.match(seen, '^%d+', 21))
if raised and raised <= tonumber(redis.call('TIME')[1]) - tonumber(ARGV[1]) then
  return redis.call('DEL', KEYS[1])
end
return 0
