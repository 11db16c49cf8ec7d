-- Remember the fence of a grant at one node, as long as the key is still ours there.
-- KEYS: lock, record. ARGV: owner, fence, ttl in ms, meta.
-- Answers 1 when it is written, 0 when the key is not ours, or the fence that is in the way.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local last, grantee, since = string.match(
    redis.call('GET', KEYS[2]) or '', '^(%d+) (%S+) %d %d+ (%d+)')
local ahead = last and tonumber(last) - tonumber(ARGV[2]) or -1
if ahead > 0 or (ahead == 0 and grantee ~= ARGV[1]) then return last end
if grantee ~= ARGV[1] then
    local time = redis.call('TIME')
    since = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end
redis.call('SET', KEYS[2], ARGV[2] .. ' ' .. ARGV[1] .. ' 1 ' .. ARGV[3] .. ' ' .. since .. ' '
    .. ARGV[4], 'PX', ARGV[3] + 3600000)
return 1
