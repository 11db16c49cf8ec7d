-- Register a client as an observer of a name; it repeats this every ten seconds.
-- KEYS: the observers, a sorted set of inboxes by the time at which each counts as gone.
-- ARGV: inbox. Return {ms until the next heartbeat, 1 if the inbox was registered before}.
--+ constants.lua
local call, now = redis.call, redis.call('TIME')[1] * 1000
local known = call('ZSCORE', KEYS[1], ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
call('ZADD', KEYS[1], string.format('%.0f', now + QUEUE), ARGV[1])
call('PEXPIRE', KEYS[1], QUEUE)
return {10000, known and 1 or 0}
