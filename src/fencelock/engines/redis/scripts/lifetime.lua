-- Keep the keys of a name of several holders for as long as a lease lasts, and a record after it. That
-- is done now and then only, and never shortens anything. Answers the moment to which they are kept.
local function prolong(holders, expiry, kept, now, ttl)
    if now + ttl + KEEP <= kept then return kept end
    local life = ttl + KEEP + KEEP_MORE
    redis.call('PEXPIRE', holders, string.format('%.0f', life))
    redis.call('PEXPIRE', expiry, string.format('%.0f', life))
    return now + life
end
