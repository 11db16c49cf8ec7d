-- Take a name from all its holders, and store the reason, which they read when they renew.
-- KEYS: the holders. ARGV: reason, 1 where one server reaches all inboxes, or 0.
-- Return how many held it.
--+ shares.lua
local revoked, count, longest = holders .. ':revoked', 0, REVOKED
load()
expire()
for _, owner in ipairs(call('ZRANGEBYSCORE', expiry, '-inf', '(' .. FREE)) do
    local record = call('HGET', holders, owner)
    if is_claimed(record) then
        call('HSET', revoked, owner, ARGV[1])
        longest = math.max(longest, tonumber(match(record, '^%d+ %d+ %S+ %d (%d+) ')))
        free(owner, record)
        count = count + 1
    end
end
if count > 0 then
    call('PEXPIRE', revoked, string.format('%.0f', math.max(longest, call('PTTL', revoked))))
    hand_on(ARGV[2])
end
save()
return count
