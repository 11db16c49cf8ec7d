-- One node's vote: the key is set for us if it is free or ours already, and the fence is written
-- with it if it is above all that this node has heard of.
-- KEYS: lock, record. ARGV: owner, ttl in ms, fence or 0 for none, meta.
-- Answers {1, fence on record, 1 if that one is ours or 0, clock in µs}, or, where another has the
-- key, {0, ms left, its value, its meta if the record is its own}.
-- The record is "<fence> <owner> 1 <ttl> <since> <meta>", as redis:// writes it.
local owner, ttl, fence = ARGV[1], ARGV[2], ARGV[3]
local fresh = redis.call('SET', KEYS[1], owner, 'NX', 'PX', ttl)
local last, grantee, meta = string.match(
    redis.call('GET', KEYS[2]) or '', '^(%d+) (%S+) %d %d+ %d+ (.*)$')
if not fresh then
    local holder = redis.call('GET', KEYS[1])
    if holder ~= owner then
        return {0, redis.call('PTTL', KEYS[1]), holder, grantee == holder and meta or ''}
    end
    redis.call('PEXPIRE', KEYS[1], ttl)
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local clock = string.format('%.0f', now)
if grantee == owner and not fresh then return {1, last, 1, clock} end -- asked again
if fence == '0' then
    fence = last or '0'
elseif last and tonumber(fence) <= tonumber(last) then
    return {1, last, 0, clock}
end
redis.call('SET', KEYS[2], fence .. ' ' .. owner .. ' 1 ' .. ttl .. ' '
    .. string.format('%.0f', math.floor(now / 1000)) .. ' ' .. ARGV[4], 'PX', ttl + 3600000)
return {1, ARGV[3], 1, clock}
