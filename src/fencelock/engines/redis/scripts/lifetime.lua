-- Have the keys of a name of several holders outlive a lease by as long as a record does. Only few
-- calls set their time to live, and none shortens it. Return the time until which they are kept.
local function prolong(holders, expiry, kept, now, ttl)
    if now + ttl + KEEP <= kept then return kept end
    local life = ttl + KEEP + KEEP_MORE
    redis.call('PEXPIRE', holders, string.format('%.0f', life))
    redis.call('PEXPIRE', expiry, string.format('%.0f', life))
    return now + life
end
