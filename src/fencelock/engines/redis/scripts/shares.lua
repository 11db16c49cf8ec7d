-- What every script that meets a name of several holders shares. KEYS: the holders.
--
-- The holders are a hash. An owner is a field with "<fence> <units> <slot> <claimed> <ttl> <since>
-- <meta>": the slot is "-" where there are none, claimed is 0 while the owner was only notified. The
-- field "=" has "<limit> <used> <slots> <fence> <kept> <waiting>": the units that there are and that
-- are held; how many slots were given at all, each of which is held or free; the last fence; the moment
-- to which these keys live; and 0 if certainly nobody waits.
-- Beside it lies a sorted set of owners, by the moment at which their leases end. Behind them are the
-- free slots, as "#" and a number, and then "=": so it is never empty and keeps its time to live. To
-- find who is due, and which slot is free, takes no longer with many holders than with few.
-- The queue is that of a mutex. There the meta of a waiter begins with the units that it wants.
local holders = KEYS[1]
local lock, expiry, queue, waiters =
    holders, holders .. ':expiry', holders .. ':queue', holders .. ':waiters'
--+ waiters.lua
--+ lifetime.lua

local BEHIND = '9000000000000000' -- and after the free slots
local DUE_MAX = '1000' -- leases that are ended in one step
local has_slots = match(holders, ':semaphore$')
local state, limit, used, slots, last, kept, waiting -- the field "=", and what is in it

-- Either key may have been evicted: without one of them nobody holds anything.
local function load()
    state = call('HGET', holders, '=')
    if not state or not call('ZSCORE', expiry, '=') then
        call('DEL', holders)
        call('DEL', expiry)
        state = nil
    end
    limit, used, slots, last, kept, waiting = match(
        state or '0 0 0 0 0 1', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d)$')
    limit, used, slots = tonumber(limit), tonumber(used), tonumber(slots)
    last, kept = tonumber(last), tonumber(kept)
end

local function is_waited_for()
    if waiting == '1' and call('EXISTS', queue) == 0 then waiting = '0' end
    return waiting == '1'
end

local function save()
    if limit == 0 then return end
    local text = string.format('%.0f %.0f %.0f %.0f %.0f %d',
        limit, used, slots, last, kept, is_waited_for() and 1 or 0)
    if text ~= state then call('HSET', holders, '=', text) end
end

-- Begin with a limit, when nobody holds anything.
local function begin(new_limit)
    limit, used, slots, kept = new_limit, 0, 0, 0
    call('DEL', expiry)
    call('ZADD', expiry, BEHIND, '=')
end

-- End a hold: its units are free, and so is its slot.
local function free(owner, record)
    local units, slot = match(record, '^%d+ (%d+) (%S+) ')
    call('HDEL', holders, owner)
    call('ZREM', expiry, owner)
    if slot ~= '-' then call('ZADD', expiry, string.format('%.0f', FREE + slot), '#' .. slot) end
    used = used - units
end

local function is_claimed(record)
    return match(record, '^%d+ %d+ %S+ (%d) ') == '1'
end

-- End what is due; who did not claim in time is skipped until it asks again. True if something was.
local function expire()
    local due = call('ZRANGEBYSCORE', expiry, '-inf', now, 'LIMIT', '0', DUE_MAX)
    for _, owner in ipairs(due) do
        local record = call('HGET', holders, owner)
        if not is_claimed(record) then skip(owner) end
        free(owner, record)
    end
    return #due > 0
end

-- The lowest slot that is free.
local function take_slot()
    local free_slot = call('ZRANGEBYSCORE', expiry, FREE, '+inf', 'LIMIT', '0', '1')[1]
    local slot = match(free_slot, '^#(%d+)$')
    if slot then
        call('ZREM', expiry, free_slot)
        return slot
    end
    slots = slots + 1
    return string.format('%.0f', slots - 1)
end

local function write_holder(owner, fence, units, slot, claimed, ttl, since, meta)
    call('HSET', holders, owner, fence .. ' ' .. units .. ' ' .. slot .. ' ' .. claimed .. ' ' .. ttl
        .. ' ' .. since .. ' ' .. meta)
    local life = claimed == '1' and tonumber(ttl) or math.min(CLAIM, tonumber(ttl))
    call('ZADD', expiry, string.format('%.0f', now + life), owner)
    kept = prolong(holders, expiry, kept, now, ttl)
end

-- Give free units to somebody; whoever calls has seen that they suffice, and that there is a fence.
local function give(owner, units, claimed, ttl, meta)
    last = draw(last)
    used = used + units
    local fence, slot = text_of(last), has_slots and take_slot() or '-'
    write_holder(owner, fence, units, slot, claimed, ttl, now, meta)
    return fence, slot
end

-- Notify the first waiters that answer, for as long as there is enough for the first of them: each
-- has a moment to claim its share. Answers the waiter that comes next, if there is one that answers:
-- it is the one who asks, or there is not enough for it.
local function hand_on(alone, asker)
    local position, notified, first = 0, false, nil
    while used < limit and last < LAST do
        local owner = call('ZRANGE', queue, position, position)[1]
        if not owner then break end
        local ttl, inbox, skipped, since, units, meta = match(
            call('HGET', waiters, owner) or '', '^(%d+) (%S+) (%d) (%d+) (%d+) (.*)$')
        local seen = tonumber(since)
        if seen and now - seen > FORGET then seen = tonumber(call('HGET', waiters, '@' .. inbox)) end
        if owner == asker then
            first = owner
            break
        elseif not seen or now - seen > FORGET then
            remove(owner)
            if inbox then call('HDEL', waiters, '@' .. inbox) end
        elseif skipped == '1' or call('HEXISTS', holders, owner) == 1 then
            position = position + 1
        elseif used + units > limit then
            first = owner
            break
        else
            if tell(owner, inbox, alone) then
                give(owner, units, '0', ttl, meta)
                notified = true
            else
                skip(owner) -- its connection is down, or it is dead
            end
            position = position + 1
        end
    end
    if notified then tell_next(position, call('HGET', waiters, '!')) end
    return first
end
