-- What is remembered. KEYS: what is remembered. Answers each item, followed by its number.
return redis.call('HGETALL', KEYS[1])
