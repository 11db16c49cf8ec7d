-- The check that runs before the guarded work, in the same script and so in the same step.
-- A mark is 19 digits, so that it compares exactly as text: a Lua number would round it. Behind it
-- stands when it was raised, in seconds of the server's clock; and behind that, while a reader has
-- the highest, the mark of the writers.
-- The last key and the last two arguments are ours; they are taken away before the work begins.
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
