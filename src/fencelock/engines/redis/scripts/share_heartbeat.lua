-- Mark a client that waits for shares of a name as alive, end the leases that are over, and hand
-- what is free to the first waiters.
-- KEYS: the holders. ARGV: inbox, 1 where one server reaches all inboxes, or 0.
-- Return {ms until the next check, 1 if the waiters of the inbox and the name are still known}.
--+ shares.lua
local known = call('HEXISTS', waiters, '@' .. ARGV[1])
if known == 1 then
    call('HSET', waiters, '@' .. ARGV[1], now)
    keep_queue()
end
load()
expire()
hand_on(ARGV[2])
save()
return {used > 0 and call('ZRANGE', expiry, '0', '0', 'WITHSCORES')[2] - now or 1000, limit > 0 and known or 0}
