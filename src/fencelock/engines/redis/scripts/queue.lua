-- What every script that meets a queue shares. KEYS: lock, record, queue.
--
-- The record is "<fence> <owner> <claimed> <ttl> <since> <meta>": times in ms of the server's clock,
-- and a since of 0 is the moment that the fence tells. Claimed is 1 when the owner asked itself, 0
-- while it was only notified, and its inbox when the lock was handed to it.
-- A field of the waiters' hash is an owner, with "<ttl> <inbox> <skipped> <since> <meta>"; or "@" and
-- an inbox, with the moment at which its client was last seen; or "!", with the moment at which
-- somebody was last told to stand by; or "~", which is there if any client was ever suspected.
--
-- Numbers go to the server as text: it takes a microsecond to write one down, as long as a command.
--+ constants.lua
local call, match = redis.call, string.match
local lock, record, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[2] .. ':waiters'
local time = call('TIME')
local micros = string.sub('000000', #time[2] + 1) .. time[2]
local text_us, now = time[1] .. micros, time[1] .. string.sub(micros, 1, 3) -- and ms, as text

local function read_record()
    local fence, owner, claimed, ttl, since = match(
        call('GET', record) or '', '^(%d+) (%S+) (%S+) (%d+) (%d+) ')
    return tonumber(fence) or 0, owner or '', claimed or '1', ttl, since
end

local function write_record(fence, owner, claimed, ttl, since, meta)
    call('SET', record, fence .. ' ' .. owner .. ' ' .. claimed .. ' ' .. ttl .. ' ' .. since .. ' '
        .. meta, 'PX', #ttl < 7 and KEEP_SHORT or string.format('%d', ttl + KEEP))
end

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

-- A lock was handed to somebody who let it expire. If that client gave no sign of life since, it is
-- suspected, until it gives one: when it was last seen is kept as a negative number.
local function suspect(inbox, since)
    local seen = tonumber(call('HGET', waiters, '@' .. inbox))
    if seen and seen > 0 and seen <= tonumber(since) then
        call('HSET', waiters, '@' .. inbox, string.format('%.0f', -seen), '~', '1')
    end
end

-- Whether a client is subscribed to its own inbox. What PUBLISH answers also counts those who listen
-- to a pattern of channels; it has to do for a user of the server who may not ask for more.
local function is_subscribed(inbox)
    local found = redis.pcall('PUBSUB', 'NUMSUB', 'fencelock:inbox:' .. inbox)
    return found.err or found[2] > 0
end

-- Hand the lock over: the waiter is told that it holds it, and how long it has waited, so it knows
-- since when at the latest. False when nobody received it.
local function hand_over(owner, inbox, fence, ttl, since, meta)
    local word = owner .. ' ' .. fence .. ' ' .. string.format('%d', now - since)
    if not is_subscribed(inbox) or call('PUBLISH', 'fencelock:inbox:' .. inbox, word) == 0 then
        return false
    end
    call('SET', lock, owner, 'PX', ttl)
    write_record(fence, owner, inbox, ttl, now, meta)
    remove(owner)
    return true
end

-- Notify a waiter: it has a moment to claim the lock. False when certainly nobody received it.
local function notify(owner, inbox, fence, ttl, meta, alone)
    if alone == '1' and not is_subscribed(inbox) then return false end
    local receivers = call('PUBLISH', 'fencelock:inbox:' .. inbox, owner)
    if receivers == 0 and alone == '1' then return false end
    call('SET', lock, owner, 'PX', math.min(CLAIM, tonumber(ttl)))
    write_record(fence, owner, '0', ttl, now, meta)
    return true
end

-- Give a lock that is free, or that this holder leaves, to the first waiter that is subscribed. Where
-- one server reaches all it is handed over; elsewhere, and to a client that is suspected, it is
-- notified. Whoever has seen already who is first in the queue may say so.
local function hand_on(alone, leaver, first)
    local last, notified, claimed, _, before = read_record()
    if leaver and (claimed == '0' or notified ~= leaver) then
        remove(leaver) -- one that was only notified stands in the queue still
        first = nil
    end
    if claimed == '0' then skip(notified) end
    if #claimed > 1 and not leaver then suspect(claimed, before) end
    local position, fence = 0, draw(last)
    if not fence then return nil end
    fence = text_of(fence)
    while true do
        local owner = first or call('ZRANGE', queue, position, position)[1]
        if not owner then return nil end
        first = nil
        local found = call('HMGET', waiters, owner, '!', '~')
        local ttl, inbox, skipped, since, meta = match(
            found[1] or '', '^(%d+) (%S+) (%d) (%d+) (.*)$')
        local seen, told = tonumber(since), found[2]
        if inbox and (found[3] or now - seen > FORGET) then
            seen = tonumber(call('HGET', waiters, '@' .. inbox))
        end
        if not seen or now - math.abs(seen) > FORGET then
            remove(owner)
            if inbox then call('HDEL', waiters, '@' .. inbox) end
        elseif skipped == '1' then
            position = position + 1
        elseif alone == '1' and seen > 0 then
            if hand_over(owner, inbox, fence, ttl, since, meta) then
                tell_next(position, told)
                return owner
            end
            skip(owner) -- its connection is down, or it is dead
            position = position + 1
        elseif notify(owner, inbox, fence, ttl, meta, alone) then
            tell_next(position + 1, told)
            return owner
        else
            skip(owner)
            position = position + 1
        end
    end
end
