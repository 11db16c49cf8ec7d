-- A client that waits for a share looks after a name: it says that it is alive, and what came free
-- without anybody's word goes to the first waiters.
-- KEYS: the holders. ARGV: inbox, 1 where one server reaches all inboxes, or 0.
-- Answers {ms until looking again, 1 if our waiters are still known, and what they wait for is}.
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
