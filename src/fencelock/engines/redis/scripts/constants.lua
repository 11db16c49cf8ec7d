-- The constants that several scripts share, in ms. Those in quotes are passed to commands as text.
local CLAIM, FORGET, TELL = 500, 30000, 250 -- to claim a lock; until a silent client counts as
-- dead; between two notifications to stand by
local KEEP, KEEP_SHORT = 3600000, '4600000' -- how long a record outlives its lease; and how long it
-- lives in all if the ttl has at most six digits
local KEEP_MORE = 600000 -- added to the life of the keys of shares, so that few requests extend it
local QUEUE, FRESH = '60000', 45000 -- how long a queue is kept; extended if less than this is left
local FREE = '8000000000000000' -- the score of free slot 0, above the ends of all leases
local REVOKED = 60000 -- how long the reason of a revocation is kept, at least
local LAST = 9007199254740991 -- no fence is above it: a double would round the next one
local CLOCK_LAST = '4503599627370495' -- no fence is drawn from a clock above it, in µs
