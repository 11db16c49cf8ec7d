-- Leave: give the share back, and leave the queue. The next waiters get what is free.
-- KEYS: the holders. ARGV: owner; 1 where one server reaches all inboxes, or 0; then "notified" to give
-- back only what was not claimed yet.
-- Answers 1 when this freed a share.
--+ shares.lua
local owner, alone = ARGV[1], ARGV[2]
load()
expire()
local record = call('HGET', holders, owner)
if ARGV[3] and not (record and not is_claimed(record)) then
    save()
    return 0
end
if record then free(owner, record) end
if call('EXISTS', queue) == 1 then
    remove(owner)
    hand_on(alone)
end
save()
return record and 1 or 0
