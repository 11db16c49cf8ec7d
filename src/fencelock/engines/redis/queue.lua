-- What every script that meets a queue shares. KEYS: lock, record, queue, waiters.
--
-- The record is "<fence> <owner> <claimed> <ttl> <since> <meta>": times in ms of the server's clock,
-- and a since of 0 is the moment that the fence tells. Claimed is 1 when the owner asked itself, 0
-- while it was only called, and its inbox when the lock was handed to it.
-- A field of the waiters' hash is an owner, with "<ttl> <inbox> <lapsed> <since> <meta>"; or "@" and
-- an inbox, with the moment at which its client was last seen; or "!", with the moment at which
-- somebody was last told to stand by.
local CLAIM, FORGET, TELL, QUEUE, KEEP = 500, 30000, 250, 60000, 3600000
local lock, record, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now = math.floor(now_us / 1000)

local function read_record()
    local text = redis.call('GET', record)
    if not text then return 0, '', '1' end
    local fence, owner, claimed, ttl, since, meta = string.match(
        text, '^(%d+) (%S+) (%S+) (%d+) (%d+) (.*)$')
    return tonumber(fence) or 0, owner or '', claimed or '1', ttl, since, meta
end

local function write_record(fence, owner, claimed, ttl, since, meta)
    redis.call('SET', record, string.format('%.0f', fence) .. ' ' .. owner .. ' ' .. claimed .. ' '
        .. ttl .. ' ' .. since .. ' ' .. meta, 'PX', string.format('%.0f', ttl + KEEP))
end

local function draw(last)
    if now_us < 4503599627370495 and now_us > last then return now_us end
    return last + 1
end

local function remove(owner)
    redis.call('ZREM', queue, owner)
    redis.call('HDEL', waiters, owner)
end

-- A waiter that was called and did not answer is passed over until it asks again.
local function lapse(owner)
    local data = redis.call('HGET', waiters, owner)
    if data then
        redis.call('HSET', waiters, owner, (string.gsub(data, '^(%d+ %S+) %d', '%1 1', 1)))
    end
end

-- If the one that the lock went to dies, nobody else would hear of it: now and then the next in the
-- queue is asked to look a moment later.
local function tell_next(place, told)
    if told and now - told < TELL and told - now < TELL then return end
    local next_owner = redis.call('ZRANGE', queue, place, place)[1]
    local data = next_owner and redis.call('HGET', waiters, next_owner)
    local inbox = data and string.match(data, '^%d+ (%S+)')
    if inbox then
        redis.call('HSET', waiters, '!', string.format('%.0f', now))
        redis.call('PUBLISH', 'fencelock:inbox:' .. inbox, '?' .. lock)
    end
end

-- A lock was handed to somebody who let it expire. If nothing was heard from that client since, it is
-- doubted, until it is heard of again: when it was last seen is kept as a negative number.
local function doubt(inbox, since)
    local seen = tonumber(redis.call('HGET', waiters, '@' .. inbox))
    if seen and seen > 0 and seen <= tonumber(since) then
        redis.call('HSET', waiters, '@' .. inbox, string.format('%.0f', -seen))
    end
end

-- Hand the lock over: the waiter is told that it holds it, and how long it has waited, so it knows
-- since when at the latest. False when nobody heard it.
local function hand_over(owner, inbox, fence, ttl, since, meta)
    local word = string.format('%s %.0f %.0f', owner, fence, now - since)
    if redis.call('PUBLISH', 'fencelock:inbox:' .. inbox, word) == 0 then return false end
    redis.call('SET', lock, owner, 'PX', ttl)
    write_record(fence, owner, inbox, ttl, string.format('%.0f', now), meta)
    remove(owner)
    return true
end

-- Call a waiter: it has a moment to claim the lock. False when it is certain that nobody heard it.
local function call_up(owner, inbox, fence, ttl, meta, alone)
    local heard = redis.call('PUBLISH', 'fencelock:inbox:' .. inbox, owner)
    if heard == 0 and alone == '1' then return false end
    redis.call('SET', lock, owner, 'PX', math.min(CLAIM, tonumber(ttl)))
    write_record(fence, owner, '0', ttl, string.format('%.0f', now), meta)
    return true
end

-- Give a lock that is free, or that its holder has left, to the first waiter that hears. Where one
-- server hears all it is handed over; elsewhere, and to a client that is doubted, it is called.
local function hand_on(alone, left)
    local last, called, claimed, _, before = read_record()
    if claimed == '0' then lapse(called) end
    if #claimed > 1 and not left then doubt(claimed, before) end
    local place = 0
    while true do
        local owner = redis.call('ZRANGE', queue, place, place)[1]
        if not owner then return nil end
        local data = redis.call('HGET', waiters, owner)
        local ttl, inbox, lapsed, since, meta = string.match(
            data or '', '^(%d+) (%S+) (%d) (%d+) (.*)$')
        local seen, told
        if inbox then
            local found = redis.call('HMGET', waiters, '@' .. inbox, '!')
            seen, told = tonumber(found[1]), found[2]
        end
        if not seen or now - math.abs(seen) > FORGET then
            remove(owner)
            if inbox then redis.call('HDEL', waiters, '@' .. inbox) end
        elseif lapsed == '1' then
            place = place + 1
        elseif alone == '1' and seen > 0 then
            if hand_over(owner, inbox, draw(last), ttl, since, meta) then
                tell_next(place, told)
                return owner
            end
            lapse(owner) -- its connection is down, or it is dead
            place = place + 1
        elseif call_up(owner, inbox, draw(last), ttl, meta, alone) then
            tell_next(place + 1, told)
            return owner
        else
            lapse(owner)
            place = place + 1
        end
    end
end
