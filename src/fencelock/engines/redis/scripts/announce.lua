-- Notify all observers of a name that it has changed. KEYS: the observers. ARGV: 1 where one server
-- reaches all inboxes, so that an inbox without subscribers is removed; or 0.
local call, now = redis.call, redis.call('TIME')[1] * 1000
for _, inbox in ipairs(call('ZRANGEBYSCORE', KEYS[1], string.format('%.0f', now), '+inf')) do
    local receivers = call('PUBLISH', 'fencelock:inbox:' .. inbox, '!' .. KEYS[1])
    if receivers == 0 and ARGV[1] == '1' then call('ZREM', KEYS[1], inbox) end
end
return 1
