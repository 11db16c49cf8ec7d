-- Delete the memos of a name. KEYS: the memos.
return redis.call('DEL', KEYS[1])
