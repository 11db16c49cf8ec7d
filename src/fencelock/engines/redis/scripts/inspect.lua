-- Return who holds a name, and who waits. KEYS: lock, record, queue. ARGV: 1 to hand a lock that is
-- free to the first waiter before, or 0; 1 where one server reaches all inboxes, or 0.
-- The reply is {owner or false, ms left, record or false, ms now, then the data of each waiter}.
--+ queue.lua
local holder = redis.call('GET', lock)
if not holder and ARGV[1] == '1' then holder = hand_on(ARGV[2]) end
local answer = {holder or false, redis.call('PTTL', lock), redis.call('GET', record),
    now}
for _, owner in ipairs(redis.call('ZRANGE', queue, 0, -1)) do
    answer[#answer + 1] = redis.call('HGET', waiters, owner) or ''
end
return answer
