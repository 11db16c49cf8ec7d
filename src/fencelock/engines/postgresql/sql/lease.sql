-- The statements of mode=lease. The first two are all that an uncontended lock needs.
-- A line "-- statement: name" begins each; "once": it is not prepared. Only statements of one kind
-- share a transaction: those of kind "lazy" do not wait for the disk, and those that "join" a queue
-- must also not wait for other transactions.

-- statement: take_free
INSERT INTO {t}_locks AS l
  (name, owner, fence, ttl, since, expires_at, claimed, queued, meta)
SELECT $1, $2, greatest(last_value + 1, {us}), $3::float8, statement_timestamp(),
  statement_timestamp() + $3::float8 * interval '1 second', true, false, $4 FROM {t}_floor
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner,
  fence = greatest(l.fence + 1, excluded.fence), ttl = excluded.ttl,
  since = excluded.since, expires_at = excluded.expires_at, claimed = true,
  meta = excluded.meta, inbox = ''
WHERE l.owner = '' AND NOT l.queued
RETURNING CASE WHEN fence > (SELECT last_value FROM {t}_floor) THEN fence ELSE {t}_again() END

-- statement: give_back, kind lazy
UPDATE {t}_locks SET owner = '', claimed = false, expires_at = statement_timestamp(), meta = ''
WHERE name = $1 AND owner = $2 AND NOT queued AND expires_at > statement_timestamp()
RETURNING set_config('synchronous_commit', 'off', true)

-- statement: take_together, kind several
SELECT * FROM {t}_take_together($1::text[], $2::text[], $3::float8[], $4, $5)

-- statement: give_back_all, kind lazy
UPDATE {t}_locks l SET owner = '', claimed = false, expires_at = statement_timestamp(), meta = ''
FROM (SELECT w.* FROM unnest($1::text[], $2::text[]) AS w (name, owner)
    JOIN {t}_locks k ON k.name = w.name ORDER BY k.name FOR NO KEY UPDATE OF k) g
WHERE l.name = g.name AND l.owner = g.owner AND NOT l.queued
  AND l.expires_at > statement_timestamp()
RETURNING g.owner, set_config('synchronous_commit', 'off', true)

-- statement: acquire
SELECT * FROM {t}_acquire($1,$2,$3,$4,$5,$6,$7)

-- statement: join_queue, kind join
SELECT {t}_join($1,$2,$3,$4,$5,true)

-- statement: leave
SELECT {t}_leave($1, $2, $3)

-- statement: leave_queue
SELECT {t}_leave_queue($1, $2, $3, $4, $5)

-- statement: revoke
SELECT {t}_revoke($1, $2)

-- statement: renew
UPDATE {t}_locks l SET ttl = g.ttl, inbox = '',
  expires_at = clock_timestamp() + g.ttl * interval '1 second'
FROM (SELECT w.* FROM unnest($1::text[], $2::text[], $3::float8[])
    AS w (name, owner, ttl) JOIN {t}_locks k ON k.name = w.name
    ORDER BY k.name FOR NO KEY UPDATE OF k) g
WHERE l.name = g.name AND l.owner = g.owner AND l.expires_at > clock_timestamp()
RETURNING l.owner

-- statement: why
SELECT owner, reason FROM {t}_revoked WHERE owner = ANY ($1::text[])

-- statement: heartbeat
UPDATE {t}_waiters SET seen_at = clock_timestamp() WHERE owner IN
(SELECT owner FROM {t}_waiters WHERE inbox = $1 FOR UPDATE SKIP LOCKED)

-- statement: listen, once
SELECT pg_advisory_lock({space}, hashtext($1))

-- statement: settle
SELECT * FROM {t}_settle($1)

-- statement: announce, kind announce
SELECT pg_notify($1, $2)

-- statement: tidy
SELECT {t}_tidy()

-- statement: durability, once
SELECT current_setting('synchronous_commit')

-- statement: holders
SELECT name, fence, ttl, extract(epoch FROM clock_timestamp() - since),
  extract(epoch FROM expires_at - clock_timestamp()), meta FROM {t}_locks
WHERE owner <> '' AND claimed AND expires_at > clock_timestamp() AND name = $1

-- statement: scan
SELECT name, fence, ttl, extract(epoch FROM clock_timestamp() - since),
  extract(epoch FROM expires_at - clock_timestamp()), meta FROM {t}_locks
WHERE owner <> '' AND claimed AND expires_at > clock_timestamp() AND starts_with(name, $1)
ORDER BY name

-- statement: waiters
SELECT extract(epoch FROM clock_timestamp() - since), meta FROM {t}_waiters
WHERE name = $1 ORDER BY place

-- This blocks a taker, which needs the row FOR UPDATE, but not our renewals.
-- statement: verify, once
SELECT 1 FROM {t}_locks WHERE name = %s AND owner = %s AND fence = %s
AND expires_at > clock_timestamp() FOR KEY SHARE
