-- Take the key from one owner at one node, and store the reason, which the owner reads when it
-- renews. KEYS: lock, record. ARGV: owner, reason. Return 1 if the owner had it.
--+ constants.lua
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
local reasons = KEYS[2] .. ':revoked'
redis.call('HSET', reasons, ARGV[1], ARGV[2])
redis.call('PEXPIRE', reasons, math.max(REVOKED, left))
return 1
