-- Delete the key at one node. KEYS: lock. ARGV: owner. Return 1 if the owner had it.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
