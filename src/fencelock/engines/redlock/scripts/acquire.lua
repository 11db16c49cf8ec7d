-- One node's vote: the key is set for us if it is free or ours already, and the fence is written
-- with it if it is above all that this node has heard of.
-- KEYS: lock, record. ARGV: owner, ttl in ms, fence or 0 for none, meta.
-- Answers {1, fence on record, 1 if that one is ours or 0, clock in µs}, or, where another has the
-- key, {0, ms left, its value, its meta if the record is its own}.
-- The record is "<fence> <owner> 1 <ttl> <since> <meta>", as redis:// writes it.
--+ constants.lua
local call, owner, ttl, fence = redis.call, ARGV[1], ARGV[2], ARGV[3]
local fresh = call('SET', KEYS[1], owner, 'NX', 'PX', ttl)
local old = call('GET', KEYS[2])
if not fresh then
    local holder = call('GET', KEYS[1])
    local grantee, meta = string.match(old or '', '^%d+ (%S+) %d %d+ %d+ (.*)$')
    if holder ~= owner then
        return {0, call('PTTL', KEYS[1]), holder, grantee == holder and meta or ''}
    end
    call('PEXPIRE', KEYS[1], ttl)
end
local time = call('TIME')
local micros = string.sub('000000', #time[2] + 1) .. time[2]
if old then
    local last, grantee = string.match(old, '^(%d+) (%S+)')
    if grantee == owner and not fresh then return {1, last, 1, time[1] .. micros} end -- asked again
    if fence ~= '0' and last and tonumber(fence) <= tonumber(last) then
        return {1, last, 0, time[1] .. micros}
    end
    if fence == '0' then fence = last or '0' end
end
call('SET', KEYS[2], fence .. ' ' .. owner .. ' 1 ' .. ttl .. ' ' .. time[1]
    .. string.sub(micros, 1, 3) .. ' ' .. ARGV[4], 'PX', ttl + KEEP)
return {1, ARGV[3], 1, time[1] .. micros}
