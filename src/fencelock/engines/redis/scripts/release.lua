-- Release the lock, or leave the queue. A lock that is free goes to the next waiter.
-- KEYS: lock, record, queue. ARGV: owner; then 0 where no server reaches all inboxes.
-- Return 1 if this released the lock, else 0.
--+ constants.lua
local call, sub, owner = redis.call, string.sub, ARGV[1]
if call('EXISTS', KEYS[3]) == 0 then
    if call('GET', KEYS[1]) ~= owner then return 0 end
    return call('DEL', KEYS[1])
end
local found = call('MGET', KEYS[1], KEYS[2])
local held, first = found[1] == owner, nil

-- The fast path: a contended lock, which goes from owner to owner. It does what hand_on would do,
-- and leaves all unusual cases to it: a record or a clock that is not as expected, a waiter that
-- was skipped or joined long ago, clients that are suspected, a waiter that has to be notified to
-- stand by, and a first waiter without a subscription.
if held and ARGV[2] ~= '0' then
    local old, time, waiters = found[2] or '', call('TIME'), KEYS[2] .. ':waiters'
    local micros = time[2]
    if #micros < 6 then micros = sub('000000', #micros + 1) .. micros end
    local fence, now = time[1] .. micros, time[1] .. sub(micros, 1, 3)
    if #fence == 16 and fence < CLOCK_LAST and sub(old, 1, 16) < fence
        and sub(old, 17, 18 + #owner) == ' ' .. owner .. ' '
        and sub(old, 19 + #owner, 20 + #owner) ~= '0 ' then
        first = call('ZRANGE', KEYS[3], '0', '0')[1]
        local known = call('HMGET', waiters, first, '!', '~')
        local told = known[2]
        local ttl, inbox, since, meta = string.match(known[1] or '', '^(%d+) (%S+) 0 (%d+) (.*)$')
        if ttl and not known[3] and now - since < FORGET
            and told and now - told < TELL and told - now < TELL then
            local channel = 'fencelock:inbox:' .. inbox
            local subscribers = redis.pcall('PUBSUB', 'NUMSUB', channel)
            if (subscribers.err or subscribers[2] > 0)
                and call('PUBLISH', channel, first .. ' ' .. fence .. ' ' .. now - since) > 0 then
                call('SET', KEYS[1], first, 'PX', ttl)
                call('SET', KEYS[2], fence .. ' ' .. first .. ' ' .. inbox .. ' ' .. ttl .. ' '
                    .. now .. ' ' .. meta, 'PX', #ttl < 7 and KEEP_SHORT or ttl + KEEP .. '')
                call('ZREM', KEYS[3], first)
                call('HDEL', waiters, first)
                return 1
            end
        end
    end
end
--+ queue.lua
if held then
    if not hand_on(ARGV[2] or '1', owner, first) then call('DEL', lock) end
    return 1
end
remove(owner)
if call('EXISTS', lock) == 0 then hand_on(ARGV[2] or '1') end
return 0
