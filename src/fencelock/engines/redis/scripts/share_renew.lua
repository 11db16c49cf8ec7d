-- Extend what is still ours. KEYS: the holders of each name. ARGV: ttl in ms and owner, for each.
-- Answers the numbers of those that are gone, from 0, each followed by the reason if somebody took it
-- away on purpose.
--+ constants.lua
--+ lifetime.lua
local call, time, gone = redis.call, redis.call('TIME'), {}
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, holders in ipairs(KEYS) do
    local ttl, owner, expiry = tonumber(ARGV[2 * i - 1]), ARGV[2 * i], holders .. ':expiry'
    local ends = call('ZSCORE', expiry, owner)
    if ends and tonumber(ends) > now and call('HEXISTS', holders, owner) == 1 then
        call('ZADD', expiry, string.format('%.0f', now + ttl), owner)
        keep(holders, expiry, ttl)
    else
        gone[#gone + 1] = i - 1
        gone[#gone + 1] = call('HGET', holders .. ':revoked', owner) or ''
    end
end
return gone
