-- Mark a client that waits for a name as alive, and hand a lock that is free to the first waiter:
-- its lease has ended, or another program has released it.
-- KEYS: lock, record, queue. ARGV: inbox, 1 where one server reaches all inboxes, or 0.
-- Return {ms until the next check, 1 if the waiters of the inbox are still known}.
--+ queue.lua
local known = redis.call('HEXISTS', waiters, '@' .. ARGV[1])
if known == 1 then
    redis.call('HSET', waiters, '@' .. ARGV[1], now)
    keep_queue()
end
local holder = redis.call('GET', lock) or hand_on(ARGV[2])
local look_in = holder and redis.call('PTTL', lock) or 1000
local _, grantee = read_record()
if holder and grantee ~= holder and (look_in < 0 or look_in > 1000) then look_in = 1000 end
return {look_in, known}
