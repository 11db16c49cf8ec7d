-- A model of one Redis server, as far as the package's scripts can tell: its keys, their times to
-- live, and the commands that the scripts call. It is written in Lua, because the scripts are: a
-- command that had to cross into Python would cost ten times as much, and a simulated server does
-- little else.
--
-- Its argument is publish, a function of a channel and a message or nil, which returns how many
-- subscribers the channel has.
local publish = ...
local floor, max, min, format, sort = math.floor, math.max, math.min, string.format, table.sort
local select, tonumber, tostring, type, unpack = select, tonumber, tostring, type, unpack

-- The server that runs the command, and its time, which stands still while a script runs. A value
-- is a string, or a table with its `kind`, its members or fields in `has`, and their `count`. Each
-- write sets the server's `is_new`.
local server, values, expires, now_us, now_ms
local OK = {ok = 'OK'}

local function refuse(why)
    error('refused: ' .. why, 0)
end

-- Return a word of a command as a server reads it.
local function word(value)
    if type(value) == 'string' then return value end
    if type(value) ~= 'number' then
        refuse('ERR Lua redis lib command arguments must be strings or integers')
    end
    return format(value == floor(value) and '%.0f' or '%.17g', value)
end

local function integer(value)
    local number = tonumber(value)
    if not number or number ~= floor(number) then
        refuse('ERR value is not an integer or out of range')
    end
    return number
end

-- Return the value of a key; delete a key whose time to live is over.
local function live(key)
    if type(key) ~= 'string' then refuse('ERR a key is a string') end
    local value = values[key]
    if value ~= nil then
        local at = expires[key]
        if not at or now_ms <= at then return value end
        values[key], expires[key], server.is_new = nil, nil, true
    end
    return nil
end

local function text(key)
    local value = live(key)
    if value ~= nil and type(value) ~= 'string' then
        refuse('WRONGTYPE Operation against a key holding the wrong kind of value')
    end
    return value
end

local function filled(key, kind)
    local value = live(key)
    if value ~= nil and (type(value) == 'string' or value.kind ~= kind) then
        refuse('WRONGTYPE Operation against a key holding the wrong kind of value')
    end
    return value
end

local function made(key, kind)
    local value = filled(key, kind)
    if not value then
        value = {kind = kind, has = {}, count = 0}
        values[key], expires[key] = value, nil
    end
    return value
end

-- Set a member or a field; return how many were new: one or none.
local function put(value, member, what)
    local is_new = value.has[member] == nil
    value.has[member], value.order, server.is_new = what, nil, true
    if is_new then value.count = value.count + 1 end
    return is_new and 1 or 0
end

-- Remove a member or a field, and the key if it is empty then; return how many were removed.
local function take(key, kind, member)
    local value = filled(key, kind)
    if not value or value.has[member] == nil then return 0 end
    value.has[member], value.order, value.count = nil, nil, value.count - 1
    server.is_new = true
    if value.count == 0 then values[key], expires[key] = nil, nil end
    return 1
end

-- Return members by score, or fields by name: never in the order that a table happens to have.
local function ordered(value)
    if value.order then return value.order end
    local order, has = {}, value.has
    for member in pairs(has) do order[#order + 1] = member end
    value.order = order
    if not order[2] then return order end
    local scored = value.kind == 'zset'
    sort(order, function(one, other)
        if scored and has[one] ~= has[other] then return has[one] < has[other] end
        return one < other
    end)
    return order
end

-- Servers are small and short-lived: a garbage collection after each doubling would cost more than
-- the memory is worth.
collectgarbage('setpause', 1000)

local commands = {}

function commands.PING() return 'PONG' end

local second, second_text -- the last second that TIME returned, and its text

function commands.TIME()
    local seconds = floor(now_us / 1000000)
    if seconds ~= second then second, second_text = seconds, format('%.0f', seconds) end
    return {second_text, tostring(now_us - seconds * 1000000)}
end

function commands.CONFIG(_, name) return {name, 'no'} end

function commands.EXISTS(key) return live(key) ~= nil and 1 or 0 end

function commands.GET(key) return text(key) or false end

function commands.MGET(...)
    local answer = {...}
    for place = 1, #answer do
        local value = live(answer[place])
        answer[place] = type(value) == 'string' and value
    end
    return answer
end

function commands.SET(key, value, a, b, c, d)
    local ms, old
    if a == 'NX' then
        if live(key) ~= nil then return false end
        a, b, c = b, c, d
    end
    if a == 'PX' then ms, a = integer(b), c end
    if a == 'GET' then old, a = text(key) or false, nil end
    if a ~= nil then error('the model has to learn SET ' .. a) end
    live(key)
    values[key], expires[key], server.is_new = word(value), ms and now_ms + ms, true
    if old ~= nil then return old end
    return OK
end

function commands.INCR(key)
    local number = integer(text(key) or '0') + 1
    values[key], server.is_new = word(number), true
    return number
end

function commands.DEL(key)
    local found = live(key) ~= nil
    values[key], expires[key], server.is_new = nil, nil, true
    return found and 1 or 0
end

function commands.PEXPIRE(key, ms)
    if live(key) == nil then return 0 end
    expires[key], server.is_new = now_ms + integer(ms), true
    return 1
end

function commands.PTTL(key)
    if live(key) == nil then return -2 end
    local at = expires[key]
    return at and max(0, at - now_ms) or -1
end

function commands.HGET(key, field)
    local found = filled(key, 'hash')
    return found and found.has[field] or false
end

function commands.HMGET(key, ...)
    local found, answer = filled(key, 'hash'), {...}
    for place = 1, #answer do answer[place] = found and found.has[answer[place]] or false end
    return answer
end

function commands.HGETALL(key)
    local found, answer = filled(key, 'hash'), {}
    for place, field in ipairs(found and ordered(found) or {}) do
        answer[2 * place - 1], answer[2 * place] = field, found.has[field]
    end
    return answer
end

function commands.HEXISTS(key, field)
    local found = filled(key, 'hash')
    return found and found.has[field] and 1 or 0
end

function commands.HSET(key, ...)
    local found, pairs_given, new = made(key, 'hash'), {...}, 0
    for place = 1, #pairs_given, 2 do
        new = new + put(found, word(pairs_given[place]), word(pairs_given[place + 1]))
    end
    return new
end

function commands.HDEL(key, field) return take(key, 'hash', field) end

function commands.ZADD(key, a, b, c)
    local found, keeps = made(key, 'zset'), a == 'NX'
    local score, member = keeps and b or a, keeps and c or b
    if keeps and found.has[member] then return 0 end
    return put(found, word(member), tonumber(score))
end

function commands.ZREM(key, member) return take(key, 'zset', member) end

function commands.ZCARD(key)
    local found = filled(key, 'zset')
    return found and found.count or 0
end

function commands.ZRANK(key, member)
    local found = filled(key, 'zset')
    if not found or not found.has[member] then return false end
    for place, one in ipairs(ordered(found)) do
        if one == member then return place - 1 end
    end
end

function commands.ZRANGE(key, first, last, scores)
    local found, answer = filled(key, 'zset'), {}
    if not found then return answer end
    local start, stop = integer(first), integer(last)
    if start < 0 then start = max(0, found.count + start) end
    if stop < 0 then stop = found.count + stop end
    local order = ordered(found)
    for place = start + 1, min(stop + 1, found.count) do
        answer[#answer + 1] = order[place]
        if scores then answer[#answer + 1] = format('%.17g', found.has[order[place]]) end
    end
    return answer
end

function commands.ZSCORE(key, member)
    local found = filled(key, 'zset')
    return found and found.has[member] and format('%.17g', found.has[member]) or false
end

-- Return whether a score is within one bound of a range: the lower (sign 1) or the upper (-1).
local function within(score, bound, sign)
    local open = bound:sub(1, 1) == '('
    local number = bound:match('inf$') and sign * -math.huge or tonumber(open and bound:sub(2) or bound)
    return open and sign * (score - number) > 0 or not open and sign * (score - number) >= 0
end

function commands.ZRANGEBYSCORE(key, least, most, ...)
    local found, options, answer = filled(key, 'zset'), {...}, {}
    if not found then return answer end
    local scores = options[1] == 'WITHSCORES'
    local left = options[1] == 'LIMIT' and integer(options[3]) or found.count
    for _, member in ipairs(ordered(found)) do
        local score = found.has[member]
        if left > 0 and within(score, word(least), 1) and within(score, word(most), -1) then
            answer[#answer + 1], left = member, left - 1
            if scores then answer[#answer + 1] = format('%.17g', score) end
        end
    end
    return answer
end

function commands.ZREMRANGEBYSCORE(key, least, most)
    local gone = commands.ZRANGEBYSCORE(key, least, most)
    for _, member in ipairs(gone) do take(key, 'zset', member) end
    return #gone
end

function commands.PUBLISH(channel, message) return publish(channel, word(message)) end

function commands.PUBSUB(_, channel) return {channel, publish(channel, nil)} end

-- How scripts call the commands, and how replies are passed to Python: one value as itself, nothing
-- as nil; a list, and any value after a write, behind a sum of flags, with a 0 in place of an empty
-- list. The flags are 1 if something was written since the last `look`; 2 if the values are a list;
-- 4 if one of them is neither a string nor an integer; 8 if the list is empty.

local redis = {}

function redis.call(command, ...)
    local run = commands[command] or commands[command:upper()]
    return (run or error('the model has to learn ' .. command))(...)
end

redis.pcall = redis.call -- no command that is called by it is refused here

local function listed(reply, sum)
    local count = #reply
    if count == 0 then return sum + 8, 0 end
    for place = 1, count do
        local one = reply[place]
        if type(one) ~= 'string' and (type(one) ~= 'number' or one ~= floor(one)) then
            return sum + 6, unpack(reply)
        end
    end
    return sum + 2, unpack(reply)
end

local function answer(reply)
    if type(reply) == 'table' then
        if not reply.ok then return listed(reply, server.is_new and 1 or 0) end
        reply = reply.ok
    elseif type(reply) == 'number' then
        reply = floor(reply)
    elseif reply == true then
        reply = 1
    end
    if server.is_new then return 1, reply or nil end
    return reply or nil
end

local function enter(entered, time_us)
    server, now_us, now_ms = entered, floor(time_us), floor(time_us / 1000)
    values, expires = server.values, server.expires
end

local function new()
    return {values = {}, expires = {}, is_new = true}
end

local function run_command(entered, time_us, command, ...)
    enter(entered, time_us)
    return answer(redis.call(command, ...))
end

local function framed(script)
    return function(entered, time_us, count, a, b, c, ...)
        enter(entered, time_us)
        if count == 3 then return answer(script(redis, {a, b, c}, {...})) end
        if count == 2 then return answer(script(redis, {a, b}, {c, ...})) end
        if count == 1 then return answer(script(redis, {a}, {b, c, ...})) end
        local keys = {a, b, c, ...}
        for place = #keys, count + 1, -1 do keys[place] = nil end
        return answer(script(redis, keys, {select(count - 2, ...)}))
    end
end

-- Return what an observer sees: the string of one key and the time at which it expires, how many
-- members a second key has, those members, and the members of a third key. Return nil if nothing
-- was written since the last call, unless `anyway`.
local function read_snapshot(seen, key, one, other, anyway)
    if not seen.is_new and not anyway then return nil end
    seen.is_new = false
    local value, at = seen.values[key], seen.expires[key]
    local here, others = seen.values[one], seen.values[other]
    if not here and not others then return value, at, 0 end
    local there = here and {unpack(ordered(here))} or {}
    local count = #there
    for _, member in ipairs(others and ordered(others) or {}) do there[#there + 1] = member end
    return value, at, count, unpack(there)
end

return new, run_command, framed, read_snapshot
