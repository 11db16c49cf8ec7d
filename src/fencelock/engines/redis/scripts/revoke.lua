-- Take the lock from its holder, and store the reason, which the holder reads when it renews.
-- KEYS: lock, record, queue. ARGV: reason, 1 where one server reaches all inboxes, or 0.
-- Return 1 if the lock was held. A lock of another program is deleted, too, without a reason: such
-- a program would not read it.
--+ queue.lua
local holder = redis.call('GET', lock) or nil
local _, grantee, claimed, ttl = read_record()
if not holder or (holder == grantee and claimed == '0') then return 0 end
redis.call('DEL', lock)
if holder == grantee then
    redis.call('HSET', record .. ':revoked', holder, ARGV[1])
    redis.call('PEXPIRE', record .. ':revoked', math.max(REVOKED, tonumber(ttl)))
end
hand_on(ARGV[2], holder)
return 1
