-- Take a share of a name if enough is free and nobody waits; otherwise queue, if an inbox is given.
-- KEYS: the holders. ARGV: owner, ttl in ms, meta, units, limit; the inbox to queue with, or ""; 1
-- where one server reaches all inboxes, or 0.
-- Return "<fence> <units> <slot>"; or {ms until the next check, position in the queue or -1, meta
-- of a holder}; or the limit with which the name is in use, if it is another.
--+ constants.lua
local call, match, sub, owner, ttl = redis.call, string.match, string.sub, ARGV[1], ARGV[2]

-- The fast path: enough is free, nobody waits and no lease has ended. The code below it handles all
-- unusual cases.
local known, expiry = call('HMGET', KEYS[1], '=', owner), KEYS[1] .. ':expiry'
local limit, used, slots, last, kept = match(
    known[1] or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) 0$')
if limit == ARGV[5] and not known[2] and limit - used >= tonumber(ARGV[4]) then
    local time, first = call('TIME'), call('ZRANGE', expiry, '0', '0', 'WITHSCORES')
    local micros = time[2]
    if #micros < 6 then micros = sub('000000', #micros + 1) .. micros end
    local fence, now = time[1] .. micros, time[1] .. sub(micros, 1, 3)
    if first[2] and tonumber(first[2]) > tonumber(now) and now + ttl + KEEP <= tonumber(kept)
        and #fence == 16 and fence < CLOCK_LAST and tonumber(last) < tonumber(fence) then
        local slot, member = '-', first[1]
        if sub(KEYS[1], -10) == ':semaphore' then
            if used ~= '0' then
                member = call('ZRANGEBYSCORE', expiry, FREE, '+inf', 'LIMIT', '0', '1')[1] or ''
            end
            slot = match(member, '^#(%d+)$')
            if slot then call('ZREM', expiry, member) else slot, slots = slots, slots + 1 end
        end
        call('ZADD', expiry, now + ttl .. '', owner)
        call('HSET', KEYS[1], owner, fence .. ' ' .. ARGV[4] .. ' ' .. slot .. ' 1 ' .. ttl .. ' '
            .. now .. ' ' .. ARGV[3], '=', limit .. ' ' .. used + ARGV[4] .. ' ' .. slots .. ' '
            .. fence .. ' ' .. kept .. ' 0')
        return fence .. ' ' .. ARGV[4] .. ' ' .. slot
    end
end
--+ shares.lua
local meta, units, wanted = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local inbox, alone = ARGV[6], ARGV[7]

load()
if limit == 0 then begin(wanted) end
local freed, record = expire(), call('HGET', holders, owner)
local first
if is_waited_for() and (freed or not record) then first = hand_on(alone, not record and owner) end
if limit ~= wanted then
    if used > 0 or is_waited_for() then
        save()
        return limit
    end
    begin(wanted)
end

if not record and (first and first ~= owner or used + units > limit) then
    local position = call('ZRANK', queue, owner) or -1
    if inbox ~= '' then
        position = join(owner, ttl, inbox, ARGV[4] .. ' ' .. meta)
        waiting = '1'
    end
    local next_due = call('ZRANGE', expiry, '0', '0', 'WITHSCORES')
    local holder = call('HGET', holders, next_due[1])
    save()
    return {next_due[2] - now, position,
        match(holder or '', '^%d+ %d+ %S+ %d %d+ %d+ (.*)$') or ''}
end

local fence, slot
local shrinks = false
if record then -- it claims its share, repeats its request, or requests fewer units
    local held, since
    fence, held, slot, since = match(record, '^(%d+) (%d+) (%S+) %d %d+ (%d+) ')
    held = tonumber(held)
    shrinks, units = units < held, math.min(units, held)
    used = used - held + units
    write_holder(owner, fence, units, slot, '1', ttl, since, meta)
elseif last >= LAST then
    save()
    return redis.error_reply('NOFENCE ' .. holders)
else
    fence, slot = give(owner, units, '1', ttl, meta)
end
if is_waited_for() then
    remove(owner)
    if shrinks or not record then hand_on(alone) end
end
save()
return fence .. ' ' .. units .. ' ' .. slot
