-- Take the lock from whoever has it, and leave the reason for the holder to find.
-- KEYS: lock, record, queue. ARGV: reason, 1 where one server reaches all inboxes, or 0.
-- Answers 1 if somebody held it. A lock of another program is taken away as well: it asks nobody.
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
