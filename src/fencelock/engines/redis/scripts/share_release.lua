-- Give the share back, and leave the queue. The next waiters get what is free.
-- KEYS: the holders. ARGV: owner; 1 where one server reaches all inboxes, or 0; then "notified" to
-- do so only if the owner has a share that it did not claim yet.
-- Return 1 if this freed a share, else 0.
--+ constants.lua
local call, match, owner = redis.call, string.match, ARGV[1]

-- The fast path: nobody waits and no lease has ended. The code below it handles all unusual cases.
local known, expiry = call('HMGET', KEYS[1], '=', owner), KEYS[1] .. ':expiry'
local limit, used, rest = match(known[1] or '', '^(%d+) (%d+) (%d+ %d+ %d+ 0)$')
if limit and known[2] and not ARGV[3] then
    local time, first = call('TIME'), call('ZRANGE', expiry, '0', '0', 'WITHSCORES')
    if first[2] and tonumber(first[2]) > time[1] * 1000 + math.floor(time[2] / 1000) then
        local units, slot = match(known[2], '^%d+ (%d+) (%S+) ')
        call('HDEL', KEYS[1], owner)
        call('ZREM', expiry, owner)
        if slot ~= '-' then call('ZADD', expiry, string.format('%.0f', FREE + slot), '#' .. slot) end
        call('HSET', KEYS[1], '=', limit .. ' ' .. used - units .. ' ' .. rest)
        return 1
    end
end
--+ shares.lua
local alone = ARGV[2]
load()
expire()
local record = call('HGET', holders, owner)
if ARGV[3] and not (record and not is_claimed(record)) then
    save()
    return 0
end
if record then free(owner, record) end
if is_waited_for() then
    remove(owner)
    hand_on(alone)
end
save()
return record and 1 or 0
