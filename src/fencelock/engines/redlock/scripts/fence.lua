-- Write a higher fence for a grant, if the owner still has the key at this node.
-- KEYS: lock, record. ARGV: owner, ttl in ms, fence, meta.
-- Return 1 if it was written; 0 if the owner does not have the key; or the fence of the record, if
-- that is higher, or equal and another owner's.
--+ constants.lua
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local last, grantee = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%S+)')
local ahead = last and tonumber(last) - tonumber(ARGV[3]) or -1
if ahead > 0 or (ahead == 0 and grantee ~= ARGV[1]) then return last end
local time = redis.call('TIME')
redis.call('SET', KEYS[2], ARGV[3] .. ' ' .. ARGV[1] .. ' 1 ' .. ARGV[2] .. ' '
    .. string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) .. ' ' .. ARGV[4],
    'PX', ARGV[2] + KEEP)
return 1
