-- Take a share of a name if there is enough of it and nobody waits; otherwise perhaps queue.
-- KEYS: the holders. ARGV: owner, ttl in ms, meta, units, limit; the inbox to queue with, or ""; 1 where
-- one server reaches all inboxes, or 0.
-- Answers "<fence> <units> <slot>"; or {ms until looking again, position in the queue or -1, meta of a
-- holder}; or the limit of those that use the name, if it is another.
--+ shares.lua
local owner, ttl, meta, units = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local wanted, inbox, alone = tonumber(ARGV[5]), ARGV[6], ARGV[7]

load()
if limit == 0 then begin(wanted) end
local freed, record = expire(), call('HGET', holders, owner)
local waiting, first = call('ZCARD', queue) > 0, nil
if waiting and (freed or not record) then first = hand_on(alone, not record and owner) end
if limit ~= wanted then
    if used > 0 or call('ZCARD', queue) > 0 then
        save()
        return limit
    end
    begin(wanted)
end

if not record and (first and first ~= owner or used + units > limit) then
    local position = inbox ~= '' and join(owner, ttl, inbox, ARGV[4] .. ' ' .. meta)
        or call('ZRANK', queue, owner) or -1
    local next_due = call('ZRANGE', expiry, '0', '0', 'WITHSCORES')
    local holder = call('HGET', holders, next_due[1])
    save()
    return {next_due[2] - now, position,
        match(holder or '', '^%d+ %d+ %S+ %d %d+ %d+ (.*)$') or ''}
end

local fence, slot
local shrinks = false
if record then -- it claims what it was notified of, or asks once more, or for less
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
if waiting then
    remove(owner)
    if shrinks or not record then hand_on(alone) end
end
save()
return fence .. ' ' .. units .. ' ' .. slot
