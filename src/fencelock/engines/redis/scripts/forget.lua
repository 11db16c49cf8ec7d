-- Remember nothing any more. KEYS: what is remembered.
return redis.call('DEL', KEYS[1])
