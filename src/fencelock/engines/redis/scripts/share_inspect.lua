-- Return who holds shares of a name, and who waits. KEYS: the holders. ARGV: 1 to end the leases
-- that are over and hand on what is free before, or 0; then 1 where one server reaches all inboxes,
-- or 0. The reply is {ms now, the limit or 0 if the name is not in use, how many holders; then the
-- record of each and the ms left; then the data of each waiter}.
--+ shares.lua
load()
if ARGV[1] == '1' then
    expire()
    hand_on(ARGV[2])
    save()
end
local found = call('ZRANGEBYSCORE', expiry, '(' .. now, '(' .. FREE, 'WITHSCORES')
local queued = call('ZRANGE', queue, '0', '-1')
local answer = {now, (#found > 0 or #queued > 0) and limit or 0, #found / 2}
for i = 1, #found, 2 do
    answer[#answer + 1] = call('HGET', holders, found[i])
    answer[#answer + 1] = found[i + 1] - now
end
for _, owner in ipairs(queued) do answer[#answer + 1] = call('HGET', waiters, owner) or '' end
return answer
