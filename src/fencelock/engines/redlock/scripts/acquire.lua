-- Cast one node's vote: set the key if it is free or the owner's already, and write the fence to
-- the record if it is higher than the one there.
-- KEYS: lock, record. ARGV: owner, ttl in ms, fence or 0 for none, meta.
-- Return {1, fence of the record, 1 if it is this owner's or 0, clock in µs}, or, if the key is
-- another owner's, {0, ms left, value of the key, meta of the record if it is of the same owner}.
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
    if grantee == owner and not fresh then return {1, last, 1, time[1] .. micros} end -- a retry
    if fence ~= '0' and last and tonumber(fence) <= tonumber(last) then
        return {1, last, 0, time[1] .. micros}
    end
    if fence == '0' then fence = last or '0' end
end
call('SET', KEYS[2], fence .. ' ' .. owner .. ' 1 ' .. ttl .. ' ' .. time[1]
    .. string.sub(micros, 1, 3) .. ' ' .. ARGV[4], 'PX', ttl + KEEP)
return {1, ARGV[3], 1, time[1] .. micros}
