-- Store the number of an item; it is never lowered, and the memos' time to live never shortened.
-- KEYS: the memos of a name, a hash. ARGV: item, number, ms to keep.
-- A number is stored as the text that was sent: a double compares integers exactly up to 2^53.
local known = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or nil)
if not known or tonumber(ARGV[2]) > known then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1
