-- What several scripts must agree on, in ms. What is in quotes goes to the server as it is.
local CLAIM, FORGET, TELL = 500, 30000, 250 -- to claim a lock; until a silent client is taken for
-- dead; between two waiters that are told to stand by
local KEEP, KEEP_SHORT = 3600000, '4600000' -- a record lives so long after its lease; and in all
-- where the ttl has no more than six digits
local KEEP_MORE = 600000 -- what the keys of shares live longer still, so that few requests prolong them
local QUEUE, FRESH = '60000', 45000 -- how long a queue is kept, and what it may still live unrenewed
local FREE = '8000000000000000' -- where free slots begin among the ends of leases
local REVOKED = 60000 -- how long the reason of a revocation is kept, at least
local LAST = 9007199254740991 -- no fence is above it: a double would round the next one
local CLOCK_LAST = '4503599627370495' -- a clock above it, in µs, is not believed
