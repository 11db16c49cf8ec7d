-- The clock, fences and the queue: the same for a mutex and for a name of several holders. A file
-- that includes this one defines the keys before: queue and waiters, and the lock, the key that a
-- waiter is notified to check.
--
-- A field of the waiters' hash is an owner, with "<ttl> <inbox> <skipped> <since> <meta>"; or "@"
-- and an inbox, with the time at which its client was last seen; or "!", with the time at which a
-- waiter was last notified to stand by; or "~", which exists if any client was ever suspected.
--
-- Numbers are passed to commands as text: to format one takes a microsecond, as long as a command.
--+ constants.lua
local call, match = redis.call, string.match
local time = call('TIME')
local micros = string.sub('000000', #time[2] + 1) .. time[2]
local text_us, now = time[1] .. micros, time[1] .. string.sub(micros, 1, 3) -- µs and ms, as text

-- Return the next fence, or nil if there is no higher one.
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

-- Skip a waiter that could not be notified, or did not claim, until it sends its request again.
local function skip(owner)
    local data = call('HGET', waiters, owner)
    if data then
        call('HSET', waiters, owner, (string.gsub(data, '^(%d+ %S+) %d', '%1 1', 1)))
    end
end

-- Join the queue; an owner that is in it already keeps its position. Return the position.
local function join(owner, ttl, inbox, meta)
    local since, position = now, nil
    if call('ZADD', queue, 'NX', text_us, owner) == 0 then
        since = match(call('HGET', waiters, owner) or '', '^%d+ %S+ %d (%d+)') or since
        position = call('ZRANK', queue, owner)
    else
        local count = call('ZCARD', queue)
        position = call('ZRANK', queue, owner)
        if position + 1 < count then -- the clock went back, or two joined in one µs
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

-- Notify the next in the queue to check the lock a moment later, unless a waiter was so notified
-- just now: if the owner that the lock went to dies, no other waiter would be notified.
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

-- Return whether a client is subscribed to its own inbox. The reply of PUBLISH also counts clients
-- that are subscribed to a pattern; it has to suffice for a user who may not run PUBSUB.
local function is_subscribed(inbox)
    local found = redis.pcall('PUBSUB', 'NUMSUB', 'fencelock:inbox:' .. inbox)
    return found.err or found[2] > 0
end

-- Notify a waiter that it is next. Return false if certainly nobody received the message.
local function tell(owner, inbox, alone)
    if alone == '1' and not is_subscribed(inbox) then return false end
    return call('PUBLISH', 'fencelock:inbox:' .. inbox, owner) > 0 or alone ~= '1'
end
