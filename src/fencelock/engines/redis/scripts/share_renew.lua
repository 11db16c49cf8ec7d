-- Extend the shares that their owners still have. KEYS: the holders of each name. ARGV: ttl in ms
-- and owner, for each. Return the indexes, from 0, of the shares that are gone, each followed by
-- the reason if it was revoked, or else by "".
--+ constants.lua
--+ lifetime.lua
local call, time, gone = redis.call, redis.call('TIME'), {}
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i, holders in ipairs(KEYS) do
    local ttl, owner, expiry = tonumber(ARGV[2 * i - 1]), ARGV[2 * i], holders .. ':expiry'
    local known, ends = call('HMGET', holders, '=', owner), call('ZSCORE', expiry, owner)
    if known[2] and ends and tonumber(ends) > now then
        call('ZADD', expiry, string.format('%.0f', now + ttl), owner)
        local before, kept, rest = string.match(known[1], '^(%d+ %d+ %d+ %d+) (%d+) (%d)$')
        local longer = prolong(holders, expiry, tonumber(kept), now, ttl)
        if longer ~= tonumber(kept) then
            call('HSET', holders, '=', before .. string.format(' %.0f ', longer) .. rest)
        end
    else
        gone[#gone + 1] = i - 1
        gone[#gone + 1] = call('HGET', holders .. ':revoked', owner) or ''
    end
end
return gone
