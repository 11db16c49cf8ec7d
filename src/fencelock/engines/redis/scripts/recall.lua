-- Return the memos of a name: each item, followed by its number. KEYS: the memos.
return redis.call('HGETALL', KEYS[1])
