-- The clock, fences and the queue, alike for a mutex and for a name that several hold. Whoever includes
-- this names the keys before: queue and waiters, and the lock, which is what waiters are told to look at.
--
-- A field of the waiters' hash is an owner, with "<ttl> <inbox> <skipped> <since> <meta>"; or "@" and
-- an inbox, with the moment at which its client was last seen; or "!", with the moment at which
-- somebody was last told to stand by; or "~", which is there if any client was ever suspected.
--
-- Numbers go to the server as text: it takes a microsecond to write one down, as long as a command.
--+ constants.lua
local call, match = redis.call, string.match
local time = call('TIME')
local micros = string.sub('000000', #time[2] + 1) .. time[2]
local text_us, now = time[1] .. micros, time[1] .. string.sub(micros, 1, 3) -- and ms, as text

-- Nothing where no higher fence can be drawn.
local function draw(last)
    local now_us = tonumber(text_us)
    if last >= LAST then return nil end
    if now_us < tonumber(CLOCK_LAST) and now_us > last then return now_us end
    return last + 1
end

local function text_of(fence)
    return fence == tonumber(text_us) and text_us or string.format('%.0f', fence)
end

local function remove(owner)
    call('ZREM', queue, owner)
    call('HDEL', waiters, owner)
end

local function keep_queue()
    call('PEXPIRE', queue, QUEUE)
    call('PEXPIRE', waiters, QUEUE)
end

-- A waiter that was notified and did not answer is skipped until it asks again.
local function skip(owner)
    local data = call('HGET', waiters, owner)
    if data then
        call('HSET', waiters, owner, (string.gsub(data, '^(%d+ %S+) %d', '%1 1', 1)))
    end
end

-- Stand in the queue; who does already keeps its position. Answers the position.
local function join(owner, ttl, inbox, meta)
    local since, position = now, nil
    if call('ZADD', queue, 'NX', text_us, owner) == 0 then
        since = match(call('HGET', waiters, owner) or '', '^%d+ %S+ %d (%d+)') or since
        position = call('ZRANK', queue, owner)
    else
        local count = call('ZCARD', queue)
        position = call('ZRANK', queue, owner)
        if position + 1 < count then -- the clock ran back, or two came in one microsecond
            local last = call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
            call('ZADD', queue, string.format('%.0f', last + 1), owner)
            position = count - 1
        end
    end
    call('HSET', waiters, '@' .. inbox, now,
        owner, ttl .. ' ' .. inbox .. ' 0 ' .. since .. ' ' .. meta)
    if call('PTTL', queue) < FRESH then keep_queue() end
    return position
end

-- If the one that the lock went to dies, nobody else would be told: now and then the next in the
-- queue is told to look a moment later.
local function tell_next(position, told)
    if told and now - told < TELL and told - now < TELL then return end
    local next_owner = call('ZRANGE', queue, position, position)[1]
    local data = next_owner and call('HGET', waiters, next_owner)
    local inbox = data and match(data, '^%d+ (%S+)')
    if inbox then
        call('HSET', waiters, '!', now)
        call('PUBLISH', 'fencelock:inbox:' .. inbox, '?' .. lock)
    end
end

-- Whether a client is subscribed to its own inbox. What PUBLISH answers also counts those who listen
-- to a pattern of channels; it has to do for a user of the server who may not ask for more.
local function is_subscribed(inbox)
    local found = redis.pcall('PUBSUB', 'NUMSUB', 'fencelock:inbox:' .. inbox)
    return found.err or found[2] > 0
end

-- Tell a waiter that it is its turn. False when certainly nobody received it.
local function tell(owner, inbox, alone)
    if alone == '1' and not is_subscribed(inbox) then return false end
    return call('PUBLISH', 'fencelock:inbox:' .. inbox, owner) > 0 or alone ~= '1'
end
