-- Check the mark of a writer before the guarded operation, in the same script and so atomically.
-- A mark has 19 digits, so that it compares exactly as text: a Lua number would round it. After it
-- the key has the time at which it was raised, in seconds of the server's clock; and after that,
-- while the highest mark is a reader's, the highest mark of the writers.
-- The last key and the last two arguments are ours; they are removed before the operation begins.
do
  local key, mark, ttl = table.remove(KEYS), table.remove(ARGV), table.remove(ARGV)
  local seen = redis.call('GET', key)
  local highest = seen and string.sub(seen, 1, 19) or ''
  if mark < highest then
    local reader = string.find(seen, ' ', 21, true) and ' read' or ''
    return redis.error_reply('STALEFENCE ' .. highest .. reader)
  end
  if ttl ~= '0' then
    redis.call('SET', key, mark .. ' ' .. redis.call('TIME')[1], 'PX', ttl)
  elseif mark > highest or string.find(seen, ' ', 21, true) then
    redis.call('SET', key, mark .. ' ' .. redis.call('TIME')[1])
  end
end
