-- One node's vote: the key is set for us if it is free, or is ours already.
-- KEYS: lock, record. ARGV: owner, ttl in ms.
-- Answers {1, highest fence of the record, 1 if that one is ours or 0, clock in µs}, or, where
-- another has the key, {0, ms left, its value, its meta if the record is its own}.
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    local holder = redis.call('GET', KEYS[1])
    if holder ~= ARGV[1] then
        local grantee, meta = string.match(
            redis.call('GET', KEYS[2]) or '', '^%d+ (%S+) %d %d+ %d+ (.*)$')
        return {0, redis.call('PTTL', KEYS[1]), holder, grantee == holder and meta or ''}
    end
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local fence, grantee = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%S+)')
local time = redis.call('TIME')
return {1, fence or '0', grantee == ARGV[1] and 1 or 0,
    string.format('%.0f', time[1] * 1000000 + time[2])}
