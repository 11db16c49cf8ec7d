-- Take the lock if it is free and nobody waits. Otherwise hand a free lock to the first waiter, and
-- queue if an inbox is given and another owner has the lock.
-- KEYS: lock, record, queue. ARGV: owner, ttl in ms, meta; then the inbox to queue with, or "" not
-- to queue; then 0 where no server reaches all inboxes (in a cluster).
-- Return the fence, or {ms until the next check, position in the queue or -1, meta of the holder}.
--+ constants.lua
local call, sub, owner, ttl = redis.call, string.sub, ARGV[1], ARGV[2]

-- The fast paths: a free lock, and a contended one. The code below them handles all unusual cases.
-- A fence is compared as a text of 16 digits, which is how many the server's clock in microseconds
-- has from 2001 to 2286.
local waiting = call('ZCARD', KEYS[3])
if waiting == 0 then
    if call('SET', KEYS[1], owner, 'NX', 'PX', ttl) then
        local time, old = call('TIME'), nil
        local seconds, micros = time[1], time[2]
        if #micros < 6 then micros = sub('000000', #micros + 1) .. micros end
        local fence, life = seconds .. micros, #ttl < 7 and KEEP_SHORT or ttl + KEEP .. ''
        if #seconds == 10 and fence < CLOCK_LAST then
            old = call('SET', KEYS[2], fence .. ' ' .. owner .. ' 1 ' .. ttl .. ' 0 ' .. ARGV[3],
                'PX', life, 'GET')
            if not old or string.byte(old, 17) == 32 and sub(old, 1, 16) < fence then
                return fence
            end
        else -- a clock in the far future, or in the past
            fence, old = '0', call('GET', KEYS[2])
        end
        local last = tonumber(string.match(old or '', '^%d+')) or 0
        if last >= LAST then
            call('SET', KEYS[2], old, 'PX', life)
            call('DEL', KEYS[1])
            return redis.error_reply('NOFENCE ' .. KEYS[2])
        end
        fence = string.format('%.0f', math.max(last + 1, tonumber(fence)))
        call('SET', KEYS[2], fence .. ' ' .. owner .. ' 1 ' .. ttl .. ' ' .. seconds
            .. sub(micros, 1, 3) .. ' ' .. ARGV[3], 'PX', life)
        return fence
    end
elseif ARGV[4] and #ARGV[4] > 0 then
    local found = call('MGET', KEYS[1], KEYS[2])
    local holder, old = found[1], found[2] or ''
    local start = holder and 18 + #holder
    if holder and holder ~= owner and sub(old, 17, start) == ' ' .. holder .. ' ' then
        local time = call('TIME')
        local seconds, micros = time[1], time[2]
        if #micros < 6 then micros = sub('000000', #micros + 1) .. micros end
        if call('ZADD', KEYS[3], 'NX', seconds .. micros, owner) == 1 then
            if call('ZRANK', KEYS[3], owner) == waiting then
                local waiters, now = KEYS[2] .. ':waiters', seconds .. sub(micros, 1, 3)
                call('HSET', waiters, '@' .. ARGV[4], now,
                    owner, ttl .. ' ' .. ARGV[4] .. ' 0 ' .. now .. ' ' .. ARGV[3])
                if call('PTTL', KEYS[3]) < FRESH then
                    call('PEXPIRE', KEYS[3], QUEUE)
                    call('PEXPIRE', waiters, QUEUE)
                end
                return {call('PTTL', KEYS[1]), waiting,
                    string.match(old, '^%S+ %d+ %d+ (.*)$', start + 1) or ''}
            end
            call('ZREM', KEYS[3], owner) -- the clock went back, or two joined in one µs
        end
    end
end
--+ queue.lua
local meta, inbox, alone = ARGV[3], ARGV[4] or '', ARGV[5] or '1'

local holder = call('GET', lock) or hand_on(alone)
if holder and holder ~= owner then
    local position = inbox ~= '' and join(owner, ttl, inbox, meta) or call('ZRANK', queue, owner) or -1
    local grantee, holder_meta = match(
        call('GET', record) or '', '^%d+ (%S+) %S+ %d+ %d+ (.*)$')
    local look_in = call('PTTL', lock)
    if grantee ~= holder then
        holder_meta = '{"program": "not fencelock"' -- taken by another program
            .. (look_in < 0 and ', "expiry": "none"}' or '}')
        if look_in < 0 or look_in > 1000 then look_in = 1000 end
    end
    return {look_in, position, holder_meta}
end

local last, grantee, _, _, since = read_record()
local fence = last
if not holder or grantee ~= owner then
    fence = draw(last)
    if not fence then return redis.error_reply('NOFENCE ' .. record) end
    since = now
end
call('SET', lock, owner, 'PX', ttl)
write_record(text_of(fence), owner, '1', ttl, since, meta)
remove(owner)
return text_of(fence)
