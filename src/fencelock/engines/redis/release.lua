-- Leave: out of the lock, and out of the queue. The next waiter is called.
-- KEYS: lock, record, queue, waiters. ARGV: owner, 1 where one server hears all, or 0.
-- Answers 1 when this freed the lock.
local call, sub, owner = redis.call, string.sub, ARGV[1]
local held = call('GET', KEYS[1]) == ARGV[1]
local first = call('ZRANGE', KEYS[3], '0', '0')[1]
if not first then
    if held then call('DEL', KEYS[1]) end
    return held and 1 or 0
end

-- The hot path: one lock that goes from hand to hand. It does what hand_on would do, and leaves to it
-- whatever is not as usual: a record or a clock that is not as it should be, a waiter that lapsed or
-- came long ago, clients that are doubted, the time to tell the next one, and nobody who hears. Its
-- numbers are FORGET, TELL and KEEP of queue.lua.
if held and ARGV[2] == '1' then
    local old, time = call('GET', KEYS[2]) or '', call('TIME')
    local micros = time[2]
    if #micros < 6 then micros = sub('000000', #micros + 1) .. micros end
    local fence, now = time[1] .. micros, time[1] .. sub(micros, 1, 3)
    if #fence == 16 and fence < '4503599627370495' and sub(old, 1, 16) < fence
        and sub(old, 17, 18 + #owner) == ' ' .. owner .. ' '
        and sub(old, 19 + #owner, 20 + #owner) ~= '0 ' then
        local found = call('HMGET', KEYS[4], first, '!', '~')
        local told = found[2]
        local ttl, inbox, since, meta = string.match(found[1] or '', '^(%d+) (%S+) 0 (%d+) (.*)$')
        if ttl and not found[3] and now - since < 30000
            and told and now - told < 250 and told - now < 250
            and call('PUBLISH', 'fencelock:inbox:' .. inbox,
                first .. ' ' .. fence .. ' ' .. now - since) > 0 then
            call('SET', KEYS[1], first, 'PX', ttl)
            call('SET', KEYS[2], fence .. ' ' .. first .. ' ' .. inbox .. ' ' .. ttl .. ' ' .. now
                .. ' ' .. meta, 'PX', ttl + 3600000 .. '')
            call('ZREM', KEYS[3], first)
            call('HDEL', KEYS[4], first)
            return 1
        end
    end
end
--+ queue.lua
if held then
    if not hand_on(ARGV[2], owner, first) then call('DEL', lock) end
    return 1
end
remove(owner)
if call('EXISTS', lock) == 0 then hand_on(ARGV[2]) end
return 0
