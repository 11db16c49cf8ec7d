-- Take the lock if it is free and nobody waits; otherwise see whose turn it is, and perhaps queue.
-- KEYS: lock, record, queue, waiters.
-- ARGV: owner, ttl in ms, meta, inbox to queue with or "", 1 where one server hears all, or 0.
-- Answers the fence, or {ms until looking again, place in the queue or -1, meta of the holder}.
if redis.call('EXISTS', KEYS[3]) == 0
    and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    local time = redis.call('TIME')
    local fence = time[1] * 1000000 + time[2]
    local since = math.floor(fence / 1000)
    local old = redis.call('GET', KEYS[2])
    local last = old and tonumber(string.match(old, '^%d+')) or 0
    if fence >= 4503599627370495 or fence <= last then fence = last + 1 end
    local text = string.format('%.0f', fence)
    redis.call('SET', KEYS[2], text .. ' ' .. ARGV[1] .. ' 1 ' .. ARGV[2] .. ' '
        .. string.format('%.0f', since) .. ' ' .. ARGV[3], 'PX', ARGV[2] + 3600000)
    return text
end
--+ queue.lua
local owner, ttl, meta, inbox, alone = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local holder = redis.call('GET', lock) or hand_on(alone)
if holder and holder ~= owner then
    local _, grantee, claimed, _, _, holder_meta = read_record()
    if inbox ~= '' then
        local since = string.format('%.0f', now)
        local old = redis.call('HGET', waiters, owner)
        if old then since = string.match(old, '^%d+ %S+ %d (%d+)') or since end
        redis.call('HSET', waiters, '@' .. inbox, string.format('%.0f', now),
            owner, ttl .. ' ' .. inbox .. ' 0 ' .. since .. ' ' .. meta)
        if not redis.call('ZSCORE', queue, owner) then
            local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
            local place = math.max(now_us, last and last + 1 or 0)
            redis.call('ZADD', queue, string.format('%.0f', place), owner)
        end
        redis.call('PEXPIRE', queue, QUEUE)
        redis.call('PEXPIRE', waiters, QUEUE)
    end
    local look_in = redis.call('PTTL', lock)
    if grantee ~= holder then
        holder_meta = '' -- taken by another program
        if look_in < 0 or look_in > 1000 then look_in = 1000 end
    end
    local place = redis.call('ZRANK', queue, owner)
    return {look_in, place or -1, holder_meta}
end

local last, grantee, _, _, since = read_record()
local fence = last
if not holder or grantee ~= owner then
    fence = draw(last)
    since = string.format('%.0f', now)
end
redis.call('SET', lock, owner, 'PX', ttl)
write_record(fence, owner, '1', ttl, since, meta)
remove(owner)
return string.format('%.0f', fence)
