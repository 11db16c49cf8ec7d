-- Check the mark of a reader: as check.lua, but against the mark of the writers, which stays.
-- A value that was written by a program that knows no readers has one mark, which is a writer's.
do
  local key, mark, ttl = table.remove(KEYS), table.remove(ARGV), table.remove(ARGV)
  local seen = redis.call('GET', key) or string.rep('0', 19) .. ' 0'
  local highest, written = string.sub(seen, 1, 19), string.match(seen, '^%d+ %d+ (%d+)$')
  local reader = written ~= nil
  written = written or highest
  if mark < written then
    return redis.error_reply('STALEFENCE ' .. written)
  end
  if mark > highest or ttl ~= '0' then
    local raised = redis.call('TIME')[1]
    highest, reader = mark > highest and mark or highest, reader or mark > highest
    local value = highest .. ' ' .. raised .. (reader and ' ' .. written or '')
    if ttl == '0' then
      redis.call('SET', key, value)
    else
      redis.call('SET', key, value, 'PX', ttl)
    end
  end
end
