-- Extend what is still ours. KEYS: a lock and its record, for each. ARGV: ttl in ms and owner, for
-- each. Answers the numbers of those that are gone, from 0, each followed by the reason if somebody
-- took it away on purpose. The key of such a reason lies in the slot of its record.
--+ constants.lua
local gone = {}
for i = 1, #KEYS, 2 do
    if redis.call('GET', KEYS[i]) == ARGV[i + 1] then
        redis.call('PEXPIRE', KEYS[i], ARGV[i])
        redis.call('PEXPIRE', KEYS[i + 1], ARGV[i] + KEEP)
    else
        gone[#gone + 1] = (i - 1) / 2
        gone[#gone + 1] = redis.call('HGET', KEYS[i + 1] .. ':revoked', ARGV[i + 1]) or ''
    end
end
return gone
