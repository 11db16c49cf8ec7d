-- A client says that it observes a name, and from then on every ten seconds.
-- KEYS: the observers, a sorted set of inboxes by the moment at which each is taken for gone.
-- ARGV: inbox. Answers {ms until saying it again, 1 if it was known}.
--+ constants.lua
local call, now = redis.call, redis.call('TIME')[1] * 1000
local known = call('ZSCORE', KEYS[1], ARGV[1])
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
call('ZADD', KEYS[1], string.format('%.0f', now + QUEUE), ARGV[1])
call('PEXPIRE', KEYS[1], QUEUE)
return {10000, known and 1 or 0}
