-- Give back a lock that was handed to somebody who no longer waits for it.
-- KEYS: lock, record, queue. ARGV: owner; the fence that it was handed, or "" if it was only notified;
-- then 1 where one server reaches all inboxes, or 0.
-- Answers 1 if it was so. What the same owner has got since has another fence, and stays its own.
--+ queue.lua
local fence, grantee, claimed = match(call('GET', record) or '', '^(%d+) (%S+) (%S+) ')
local same = fence == ARGV[2] or ARGV[2] == '' and claimed == '0'
if not same or grantee ~= ARGV[1] or call('GET', lock) ~= ARGV[1] then return 0 end
if not hand_on(ARGV[3], ARGV[1]) then call('DEL', lock) end
return 1
