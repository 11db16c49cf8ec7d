-- Take the lock if it is free and nobody waits; otherwise see whose turn it is, and perhaps queue.
-- KEYS: lock, record, queue, waiters.
-- ARGV: owner, ttl in ms, meta, inbox to queue with or "", 1 where one server hears all or 0, ms for
-- which to remember the fence.
-- Answers the fence, or {ms until looking again, place in the queue or -1, meta of the holder}.
--
-- The first part is the hot path: a fence is compared as a text of 16 digits, which is what the
-- server's clock in microseconds has from 2001 to 2286.
local call = redis.call
if call('EXISTS', KEYS[3]) == 0 and call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    local time, old = call('TIME'), nil
    local seconds, micros = time[1], time[2]
    local fence = seconds .. string.sub('000000', #micros + 1) .. micros
    if #seconds == 10 and seconds < '4503599627' then
        old = call('SET', KEYS[2], fence .. ' ' .. ARGV[1] .. ' 1 ' .. ARGV[2] .. ' 0 ' .. ARGV[3],
            'PX', ARGV[6], 'GET')
        if not old or string.byte(old, 17) == 32 and string.sub(old, 1, 16) < fence then
            return fence
        end
    else -- a clock in the far future, or in the past
        fence, old = '0', call('GET', KEYS[2])
    end
    local last = tonumber(string.match(old or '', '^%d+')) or 0
    fence = string.format('%.0f', math.max(last + 1, tonumber(fence)))
    call('SET', KEYS[2], fence .. ' ' .. ARGV[1] .. ' 1 ' .. ARGV[2] .. ' ' .. seconds
        .. string.sub('000000' .. micros, -6, -4) .. ' ' .. ARGV[3], 'PX', ARGV[6])
    return fence
end
--+ queue.lua
local owner, ttl, meta, inbox, alone = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Stand in the queue; who does already keeps its place. Answers the place.
local function join()
    local since, place = now, nil
    if call('ZADD', queue, 'NX', text_us, owner) == 0 then
        since = match(call('HGET', waiters, owner) or '', '^%d+ %S+ %d (%d+)') or since
        place = call('ZRANK', queue, owner)
    else
        local count = call('ZCARD', queue)
        place = call('ZRANK', queue, owner)
        if place + 1 < count then -- the clock ran back, or two came in one microsecond
            local last = call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
            call('ZADD', queue, string.format('%.0f', last + 1), owner)
            place = count - 1
        end
    end
    call('HSET', waiters, '@' .. inbox, now,
        owner, ttl .. ' ' .. inbox .. ' 0 ' .. since .. ' ' .. meta)
    if call('PTTL', queue) < FRESH then keep_queue() end
    return place
end

local holder = call('GET', lock) or hand_on(alone)
if holder and holder ~= owner then
    local place = inbox ~= '' and join() or call('ZRANK', queue, owner) or -1
    local grantee, holder_meta = match(
        call('GET', record) or '', '^%d+ (%S+) %S+ %d+ %d+ (.*)$')
    local look_in = call('PTTL', lock)
    if grantee ~= holder then
        holder_meta = '' -- taken by another program
        if look_in < 0 or look_in > 1000 then look_in = 1000 end
    end
    return {look_in, place, holder_meta}
end

local last, grantee, _, _, since = read_record()
local fence = last
if not holder or grantee ~= owner then
    fence = draw(last)
    since = now
end
call('SET', lock, owner, 'PX', ttl)
write_record(text_of(fence), owner, '1', ttl, since, meta)
remove(owner)
return text_of(fence)
