-- Extend the locks that their owners still have. KEYS: a lock and its record, for each. ARGV: ttl
-- in ms and owner, for each. Return the indexes, from 0, of the locks that are gone, each followed
-- by the reason if it was revoked, else by "". The key of the reasons is in the record's slot.
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
