-- Leave: out of the lock, and out of the queue. The next waiter is called.
-- KEYS: lock, record, queue, waiters. ARGV: owner, 1 where one server hears all, or 0.
-- Answers 1 when this freed the lock.
local held = redis.call('GET', KEYS[1]) == ARGV[1]
if redis.call('EXISTS', KEYS[3]) == 0 then
    if held then redis.call('DEL', KEYS[1]) end
    return held and 1 or 0
end
--+ queue.lua
if not held or redis.call('ZREM', queue, ARGV[1]) == 1 then remove(ARGV[1]) end
local heir = (held or redis.call('EXISTS', lock) == 0) and hand_on(ARGV[2], held)
if held and not heir then redis.call('DEL', lock) end
return held and 1 or 0
