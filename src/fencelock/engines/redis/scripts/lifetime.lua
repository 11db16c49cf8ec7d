-- Keep the keys of a name of several holders for as long as a lease lasts, and a record after it. That
-- is never shortened, and done now and then only.
local function keep(holders, expiry, ttl)
    if redis.call('PTTL', holders) < ttl + KEEP then
        local life = string.format('%.0f', ttl + KEEP + KEEP_MORE)
        redis.call('PEXPIRE', holders, life)
        redis.call('PEXPIRE', expiry, life)
    end
end
