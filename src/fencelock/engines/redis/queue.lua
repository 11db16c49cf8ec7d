-- What every script that meets a queue shares. KEYS: lock, record, queue, waiters.
--
-- The record is "<fence> <owner> <claimed> <ttl> <since> <meta>": times in ms of the server's clock,
-- and a since of 0 is the moment that the fence tells.
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
        text, '^(%d+) (%S+) (%d) (%d+) (%d+) (.*)$')
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

-- If the one that was called dies, nobody else would hear of it: now and then the next in the queue
-- is asked to look a moment later.
local function tell_next(place)
    local told = redis.call('HGET', waiters, '!')
    if told and now - told < TELL and told - now < TELL then return end
    local next_owner = redis.call('ZRANGE', queue, place, place)[1]
    local data = next_owner and redis.call('HGET', waiters, next_owner)
    local inbox = data and string.match(data, '^%d+ (%S+)')
    if inbox then
        redis.call('HSET', waiters, '!', string.format('%.0f', now))
        redis.call('PUBLISH', 'fencelock:inbox:' .. inbox, '?' .. lock)
    end
end

-- Give a lock that is free to the first waiter that answers. It has a moment to claim it.
local function hand_on(alone)
    local last, called, claimed = read_record()
    if claimed == '0' then lapse(called) end
    local place = 0
    while true do
        local owner = redis.call('ZRANGE', queue, place, place)[1]
        if not owner then return nil end
        local data = redis.call('HGET', waiters, owner)
        local ttl, inbox, lapsed, _, meta = string.match(data or '', '^(%d+) (%S+) (%d) (%d+) (.*)$')
        local seen = inbox and redis.call('HGET', waiters, '@' .. inbox)
        if not seen or now - seen > FORGET then
            remove(owner)
            if inbox then redis.call('HDEL', waiters, '@' .. inbox) end
        elseif lapsed == '1' then
            place = place + 1
        elseif redis.call('PUBLISH', 'fencelock:inbox:' .. inbox, owner) == 0 and alone == '1' then
            lapse(owner) -- nobody hears it: its connection is down, or it is dead
            place = place + 1
        else
            local fence = draw(last)
            redis.call('SET', lock, owner, 'PX', math.min(CLAIM, tonumber(ttl)))
            write_record(fence, owner, '0', ttl, string.format('%.0f', now), meta)
            tell_next(place + 1)
            return owner
        end
    end
end
