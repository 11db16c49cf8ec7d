-- Give back a lock that was handed to an owner that no longer waits for it.
-- KEYS: lock, record, queue. ARGV: owner; the fence that it was handed, or "" if it was only
-- notified; then 1 where one server reaches all inboxes, or 0.
-- Return 1 if the lock was given back. A later grant to this owner has another fence, and holds.
--+ queue.lua
local fence, grantee, claimed = match(call('GET', record) or '', '^(%d+) (%S+) (%S+) ')
local same = fence == ARGV[2] or ARGV[2] == '' and claimed == '0'
if not same or grantee ~= ARGV[1] or call('GET', lock) ~= ARGV[1] then return 0 end
if not hand_on(ARGV[3], ARGV[1]) then call('DEL', lock) end
return 1
