-- The functions that all scripts for names of several holders share. KEYS: the holders.
--
-- The holders are a hash. An owner is a field with "<fence> <units> <slot> <claimed> <ttl> <since>
-- <meta>": the slot is "-" where there are none, claimed is 0 while the owner is only notified. The
-- field "=" has "<limit> <used> <slots> <fence> <kept> <waiting>": how many units there are and how
-- many are held; how many slots were given so far, each of which is held or free; the last fence;
-- the time until which these keys live; and 0 if certainly nobody waits.
-- A sorted set has the owners, by the time at which their leases end. After them come the free
-- slots, as "#" and a number, and then "=": so the set is never empty and keeps its time to live.
-- Finding the leases that have ended, or a free slot, takes as long with many holders as with few.
-- The queue is that of a mutex, except that a waiter's meta begins with the units that it wants.
local holders = KEYS[1]
local lock, expiry, queue, waiters =
    holders, holders .. ':expiry', holders .. ':queue', holders .. ':waiters'
--+ waiters.lua
--+ lifetime.lua

local BEHIND = '9000000000000000' -- the score of "=", above those of the free slots
local DUE_MAX = '1000' -- how many leases one step ends at most
local has_slots = match(holders, ':semaphore$')
local state, limit, used, slots, last, kept, waiting -- the field "=", and its values

-- Read the state. Either key may have been evicted: if one is missing, nobody holds anything.
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

-- Set a new limit; nobody holds anything.
local function begin(new_limit)
    limit, used, slots, kept = new_limit, 0, 0, 0
    call('DEL', expiry)
    call('ZADD', expiry, BEHIND, '=')
end

-- End a hold: free its units and its slot.
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

-- End the leases that are over; a waiter that did not claim its share is skipped until it sends its
-- request again. Return whether any lease was over.
local function expire()
    local due = call('ZRANGEBYSCORE', expiry, '-inf', now, 'LIMIT', '0', DUE_MAX)
    for _, owner in ipairs(due) do
        local record = call('HGET', holders, owner)
        if not is_claimed(record) then skip(owner) end
        free(owner, record)
    end
    return #due > 0
end

-- Take the lowest free slot, and return it.
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

-- Give free units to an owner; the caller has checked that they suffice and that a fence is left.
local function give(owner, units, claimed, ttl, meta)
    last = draw(last)
    used = used + units
    local fence, slot = text_of(last), has_slots and take_slot() or '-'
    write_holder(owner, fence, units, slot, claimed, ttl, now, meta)
    return fence, slot
end

-- Notify the first waiters that can be reached, for as long as enough is free for the first of
-- them: each has a moment to claim its share. Return the next waiter, if there is one: it is the
-- asker, or not enough is free for it.
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
