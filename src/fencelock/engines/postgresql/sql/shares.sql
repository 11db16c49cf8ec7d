-- The statements of semaphores and read/write locks, in mode=lease. They share no transaction with
-- those of locks: a batch locks its rows in the order of names alone.

-- statement: take_free, kind shares
SELECT * FROM {t}_take_share($1,$2,$3,$4,$5,$6,$7)

-- statement: acquire, kind shares
SELECT * FROM {t}_acquire_share($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)

-- statement: give_back, kind shares lazy
SELECT {t}_give_back_share($1, $2, $3)

-- statement: leave, kind shares
SELECT {t}_leave_share($1, $2, $3, $4)

-- statement: renew, kind shares
SELECT {t}_renew_shares($1, $2, $3, $4)

-- statement: revoke
SELECT {t}_revoke_shares($1, $2)

-- statement: heartbeat
UPDATE {t}_share_queue SET seen_at = clock_timestamp() WHERE (name, kind, owner) IN
(SELECT name, kind, owner FROM {t}_share_queue WHERE inbox = $1 FOR UPDATE SKIP LOCKED)

-- statement: settle
SELECT * FROM {t}_settle_shares($1)

-- statement: tidy
SELECT {t}_tidy_shares()

-- statement: usable, once
SELECT bool_and(coalesce(has_table_privilege(to_regclass(name), kind), false))
FROM unnest(ARRAY['{t}_share_names', '{t}_shares', '{t}_share_queue', '{t}_memos']) AS name,
  unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS kind

-- statement: holders
SELECT s.name, s.fence, s.ttl, extract(epoch FROM clock_timestamp() - s.since),
  extract(epoch FROM s.expires_at - clock_timestamp()), s.meta,
  s.slot,
  CASE WHEN s.kind = 'semaphore' THEN s.kind WHEN s.units = n.capacity THEN 'write' ELSE 'read' END,
  n.capacity
FROM {t}_shares s JOIN {t}_share_names n ON n.name = s.name AND n.kind = s.kind
WHERE s.claimed AND s.expires_at > clock_timestamp() AND s.name = $1 ORDER BY s.kind DESC, s.fence

-- statement: scan
SELECT s.name, s.fence, s.ttl, extract(epoch FROM clock_timestamp() - s.since),
  extract(epoch FROM s.expires_at - clock_timestamp()), s.meta,
  s.slot,
  CASE WHEN s.kind = 'semaphore' THEN s.kind WHEN s.units = n.capacity THEN 'write' ELSE 'read' END,
  n.capacity
FROM {t}_shares s JOIN {t}_share_names n ON n.name = s.name AND n.kind = s.kind
WHERE s.claimed AND s.expires_at > clock_timestamp() AND starts_with(s.name, $1)
ORDER BY s.name, s.kind DESC, s.fence

-- statement: waiters
SELECT extract(epoch FROM clock_timestamp() - q.since), q.meta,
  CASE WHEN q.kind = 'semaphore' THEN q.kind WHEN q.units = n.capacity THEN 'write' ELSE 'read' END,
  n.capacity
FROM {t}_share_queue q JOIN {t}_share_names n ON n.name = q.name AND n.kind = q.kind
WHERE q.name = $1 ORDER BY q.kind DESC, q.place

-- statement: verify, once
SELECT 1 FROM {t}_verify_share(%s, %s, %s, %s)
