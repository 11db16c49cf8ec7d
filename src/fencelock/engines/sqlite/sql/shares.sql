-- The statements of shares.py. In all of them, ?1 is the key of a name.

-- part: free_slot
-- The lowest free slot of a semaphore, searched from low_slot; none for a read/write lock.
CASE WHEN ?1 < char(2) THEN COALESCE(
  (SELECT n.low_slot FROM share_names n WHERE n.key = ?1
    AND NOT EXISTS (SELECT 1 FROM shares s WHERE s.key = ?1 AND s.slot = n.low_slot)),
  (SELECT s.slot + 1 FROM shares s WHERE s.key = ?1
    AND s.slot >= (SELECT low_slot FROM share_names WHERE key = ?1)
    AND NOT EXISTS (SELECT 1 FROM shares t WHERE t.key = ?1 AND t.slot = s.slot + 1)
    ORDER BY s.slot LIMIT 1),
  0) END

-- part: is_handed
-- Whether a share was handed to a waiter, which has not claimed it yet.
EXISTS (SELECT 1 FROM shares s WHERE s.key = w.key AND s.owner = w.owner)

-- statement: take_free
-- A transaction by itself. It changes nothing in any unusual case.
INSERT INTO shares SELECT ?1, ?2, ?3, ?4, {free_slot}, ?5, ?6, ?7, ?8, ?9, ?10
WHERE ?5 > (SELECT fence FROM locks WHERE name = '')
  AND NOT EXISTS (SELECT 1 FROM share_waiters WHERE key = ?1)
  AND NOT EXISTS (SELECT 1 FROM shares WHERE key = ?1 AND owner = ?2)
  AND NOT EXISTS (SELECT 1 FROM share_names WHERE key = ?1
    AND (capacity <> ?4 OR used + ?3 > capacity OR ends_at <= ?7))

-- statement: take_free_slot
{take_free} RETURNING slot

-- statement: give_back
-- A transaction by itself, for a name that nobody waits for.
DELETE FROM shares WHERE key = ?1 AND owner = ?2 AND expires_at > ?3
  AND NOT EXISTS (SELECT 1 FROM share_waiters WHERE key = ?1)

-- statement: give
INSERT INTO shares VALUES (?1, ?2, ?3, ?4, {free_slot}, ?5, ?6, ?7, ?8, ?9, ?10)

-- statement: claim
UPDATE shares SET units = MIN(units, ?3), ttl = ?4, expires_at = ?5, claimed = 1
WHERE key = ?1 AND owner = ?2

-- statement: renew
UPDATE shares SET ttl = ?3, expires_at = ?4 + ?3 WHERE key = ?1 AND owner = ?2 AND expires_at > ?4

-- statement: remove
DELETE FROM shares WHERE key = ?1 AND owner = ?2

-- statement: remove_unclaimed
DELETE FROM shares WHERE key = ?1 AND owner = ?2 AND NOT claimed

-- statement: state
SELECT mark.fence, n.capacity, COALESCE(n.used, 0), COALESCE(n.ends_at, 9e99),
  EXISTS (SELECT 1 FROM share_waiters WHERE key = ?1)
FROM locks mark LEFT JOIN share_names n ON n.key = ?1 WHERE mark.name = ''

-- statement: record
SELECT fence, units, slot FROM shares WHERE key = ?1 AND owner = ?2

-- statement: live
SELECT 1 FROM shares WHERE key = ?1 AND owner = ?2 AND expires_at > ?3

-- statement: any_meta
SELECT meta FROM shares WHERE key = ?1 LIMIT 1

-- statement: claimed
SELECT owner, expires_at FROM shares WHERE key = ?1 AND claimed ORDER BY fence

-- statement: mark_lapsed
UPDATE share_waiters SET lapsed = 1 WHERE key = ?1 AND owner IN
  (SELECT owner FROM shares WHERE key = ?1 AND expires_at <= ?2 AND NOT claimed)

-- statement: expire
DELETE FROM shares WHERE key = ?1 AND expires_at <= ?2

-- statement: next_end
UPDATE share_names SET ends_at =
  (SELECT COALESCE(MIN(expires_at), 9e99) FROM shares WHERE key = ?1)
WHERE key = ?1

-- statement: next_waiter
-- The first waiter after a position that could be next, or that was not seen for too long.
SELECT w.place, w.owner, w.units, w.capacity, w.ttl, w.inbox, w.meta, w.seen_at < ?3
FROM share_waiters w WHERE w.key = ?1 AND w.place > ?2
  AND (w.seen_at < ?3 OR NOT (w.lapsed OR {is_handed}))
ORDER BY w.place LIMIT 1

-- statement: see
UPDATE share_waiters SET seen_at = ?3, lapsed = 0, inbox = ?4 WHERE key = ?1 AND owner = ?2

-- statement: waits
SELECT 1 FROM share_waiters WHERE key = ?1 AND owner = ?2

-- statement: join
INSERT INTO share_waiters
SELECT ?1, COALESCE(MAX(place), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?6, 0, ?7, ?8
FROM share_waiters WHERE key = ?1

-- statement: position
SELECT COUNT(*) FROM share_waiters WHERE key = ?1
  AND place < (SELECT place FROM share_waiters WHERE key = ?1 AND owner = ?2)

-- statement: leave
DELETE FROM share_waiters WHERE key = ?1 AND owner = ?2
