-- Stop waiting through one client: leave the queue if the position there is that client's, and give
-- back a lock that was handed to it and never claimed. The owner may have sent a request through
-- another client meanwhile, and waits there, or holds the lock.
-- KEYS: lock, record, queue. ARGV: owner; the inbox of that client; then 0 where no server reaches
-- all inboxes.
--+ queue.lua
local owner, inbox, alone = ARGV[1], ARGV[2], ARGV[3] or '1'
local waits = match(call('HGET', waiters, owner) or '', '^%d+ (%S+) ') == inbox
local _, grantee, claimed = read_record()
if call('GET', lock) == owner and grantee == owner
    and (claimed == inbox or claimed == '0' and waits) then
    if not hand_on(alone, owner) then call('DEL', lock) end
elseif waits then
    remove(owner)
    if call('EXISTS', lock) == 0 then hand_on(alone) end
end
return 1
