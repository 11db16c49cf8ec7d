-- The functions that all scripts with a queue share. KEYS: lock, record, queue.
--
-- The record is "<fence> <owner> <claimed> <ttl> <since> <meta>": times in ms of the server's
-- clock, and a since of 0 stands for the time that the fence gives. Claimed is 1 if a request of
-- the owner took the lock, 0 while the owner is only notified, and its inbox if the lock was handed
-- to it.
local lock, record, queue, waiters = KEYS[1], KEYS[2], KEYS[3], KEYS[2] .. ':waiters'
--+ waiters.lua

local function read_record()
    local fence, owner, claimed, ttl, since = match(
        call('GET', record) or '', '^(%d+) (%S+) (%S+) (%d+) (%d+) ')
    return tonumber(fence) or 0, owner or '', claimed or '1', ttl, since
end

local function write_record(fence, owner, claimed, ttl, since, meta)
    call('SET', record, fence .. ' ' .. owner .. ' ' .. claimed .. ' ' .. ttl .. ' ' .. since .. ' '
        .. meta, 'PX', #ttl < 7 and KEEP_SHORT or string.format('%d', ttl + KEEP))
end

-- Suspect a client to which a lock was handed that then expired, unless the client was seen since:
-- the time at which it was last seen is stored as a negative number, until it is seen again.
local function suspect(inbox, since)
    local seen = tonumber(call('HGET', waiters, '@' .. inbox))
    if seen and seen > 0 and seen <= tonumber(since) then
        call('HSET', waiters, '@' .. inbox, string.format('%.0f', -seen), '~', '1')
    end
end

-- Hand the lock over: notify the waiter that it holds the lock, and of how long it has waited, from
-- which it knows a time not later than the grant. Return false if nobody received the message.
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

-- Notify a waiter: it has a moment to claim the lock. Return false if certainly nobody received the
-- message.
local function notify(owner, inbox, fence, ttl, meta, alone)
    if not tell(owner, inbox, alone) then return false end
    call('SET', lock, owner, 'PX', math.min(CLAIM, tonumber(ttl)))
    write_record(fence, owner, '0', ttl, now, meta)
    return true
end

-- Give a lock that is free, or that this holder leaves, to the first waiter that is subscribed.
-- Where one server reaches all inboxes the lock is handed over; elsewhere, and if its client is
-- suspected, the waiter is notified. A caller that has already read the first of the queue may pass
-- it as `first`. Return the new owner, or nil.
local function hand_on(alone, leaver, first)
    local last, notified, claimed, _, before = read_record()
    if leaver and (claimed == '0' or notified ~= leaver) then
        remove(leaver) -- an owner that was only notified is still in the queue
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
