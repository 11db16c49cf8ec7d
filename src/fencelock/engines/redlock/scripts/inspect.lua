-- Return what one node stores for a name. KEYS: lock, record.
-- The reply is {value of the key or false, ms left, record or false, ms of the clock}.
local time = redis.call('TIME')
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]),
    string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))}
