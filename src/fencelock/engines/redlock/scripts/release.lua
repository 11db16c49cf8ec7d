-- Give the key back at one node. KEYS: lock. ARGV: owner. Answers 1 if it was ours.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
