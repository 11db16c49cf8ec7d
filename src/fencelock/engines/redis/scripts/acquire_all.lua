-- Take several locks if all of them are free and nobody waits for any; otherwise take none.
-- KEYS: lock, record, queue, for each. ARGV: owner, ttl in ms, meta, for each.
-- Return the fences; or {index, from 0, of the first lock that is held, meta of its holder}; or nil
-- if somebody waits for a lock that is free: acquire.lua serves its queue.
--+ constants.lua
local call, match = redis.call, string.match
local time = call('TIME')
local now_us = tonumber(time[1] .. string.sub('000000', #time[2] + 1) .. time[2])
local now = math.floor(now_us / 1000)
if now_us >= tonumber(CLOCK_LAST) then now_us = 0 end -- a clock in the far future

local fences = {}
for i = 1, #KEYS, 3 do
    local holder, old = call('GET', KEYS[i]), call('GET', KEYS[i + 1]) or ''
    local last, grantee, meta = match(old, '^(%d+) (%S+) %S+ %d+ %d+ (.*)$')
    if holder then
        return {(i - 1) / 3, grantee == holder and meta or '{"program": "not fencelock"}'}
    elseif call('EXISTS', KEYS[i + 2]) == 1 then
        return false
    end
    last = tonumber(last or match(old, '^%d+')) or 0
    if last >= LAST then return redis.error_reply('NOFENCE ' .. KEYS[i + 1]) end
    fences[#fences + 1] = string.format('%.0f', math.max(last + 1, now_us))
end
for i = 1, #KEYS, 3 do
    local owner, ttl, meta = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    call('SET', KEYS[i], owner, 'PX', ttl)
    call('SET', KEYS[i + 1], fences[(i + 2) / 3] .. ' ' .. owner .. ' 1 ' .. ttl .. ' '
        .. string.format('%.0f', now) .. ' ' .. meta, 'PX', string.format('%.0f', ttl + KEEP))
end
return fences
