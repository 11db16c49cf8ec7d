-- The statements of mode=advisory, bound to a session. Each lock and unlock is one statement, and
-- writes to no table, except that unlock_shown deletes the row of the holder. CASE fixes the order:
-- first the lock, then its fence. The same statement sets the session's idle timeout if it changes.

-- A commit to the table of holders must not wait for the disk: the table is for people to read.
-- statement: begin, once
SELECT pg_backend_pid(), {c}_lift(), {t}_sweep(),
  set_config('statement_timeout', '0', false),
  set_config('lock_timeout', '0', false), set_config('synchronous_commit', 'off', false),
  set_config('client_connection_check_interval', '5s', false)

-- statement: try_lock
SELECT CASE WHEN pg_try_advisory_lock($1::bigint) THEN nextval('{c}_fence') END

-- A refused request does not change the idle timeout: the session's leases are not as short.
-- statement: try_lock_limited
SELECT fence,
  CASE WHEN fence IS NOT NULL THEN set_config('idle_session_timeout', $2, false) END
FROM (SELECT CASE WHEN pg_try_advisory_lock($1::bigint) THEN nextval('{c}_fence') END
  AS fence) tried

-- statement: lock
SELECT CASE WHEN pg_advisory_lock($1::bigint)::text IS NOT NULL THEN nextval('{c}_fence') END,
  extract(epoch FROM clock_timestamp() - statement_timestamp()),
  set_config('idle_session_timeout', $2, false)

-- statement: unlock
SELECT pg_advisory_unlock($1::bigint)

-- statement: unlock_limited
SELECT pg_advisory_unlock($1::bigint), set_config('idle_session_timeout', $2, false)

-- statement: unlock_shown
WITH erased AS (DELETE FROM {t}_holders WHERE name = $3 AND owner = $4)
SELECT pg_advisory_unlock($1::bigint), set_config('idle_session_timeout', $2, false)

-- statement: unlock_all
SELECT pg_advisory_unlock_all()

-- statement: limit
SELECT set_config('idle_session_timeout', $1, false)

-- Write the holders, for people to read. A row of the same owner is from a renewal, and is newer.
-- statement: show
INSERT INTO {t}_holders AS h
SELECT DISTINCT ON (name) name, owner, key, fence, ttl,
  clock_timestamp() - age * interval '1 second',
  clock_timestamp() + remaining * interval '1 second', pg_backend_pid(), NULL, meta
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::float8[], $6::float8[],
  $7::text[], $8::float8[]) AS g (name, owner, key, fence, ttl, age, meta, remaining)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, key = excluded.key,
  fence = excluded.fence, ttl = excluded.ttl, since = excluded.since,
  expires_at = excluded.expires_at, pid = excluded.pid, xid = NULL, meta = excluded.meta
WHERE h.owner <> excluded.owner

-- statement: hide
DELETE FROM {t}_holders h USING unnest($1::text[], $2::text[])
  AS g (name, owner) WHERE h.name = g.name AND h.owner = g.owner

-- statement: renew
WITH renewed AS (INSERT INTO {t}_holders
  SELECT DISTINCT ON (name) name, owner, key, fence, ttl,
    clock_timestamp() - age * interval '1 second',
    clock_timestamp() + ttl * interval '1 second', pg_backend_pid(), NULL, meta
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::float8[], $6::float8[],
    $7::text[]) AS g (name, owner, key, fence, ttl, age, meta)
  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, key = excluded.key,
    fence = excluded.fence, ttl = excluded.ttl, since = excluded.since,
    expires_at = excluded.expires_at, pid = excluded.pid, xid = NULL, meta = excluded.meta)
SELECT set_config('idle_session_timeout', $8, false)

-- Count the locks of sessions with our application_name for which no row names the holder.
-- statement: not_shown
SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.locktype = 'advisory' AND l.objsubid = 1
  AND a.application_name = current_setting('application_name')
  AND NOT EXISTS (SELECT 1 FROM {t}_holders h WHERE h.pid = l.pid AND {is_key})
  AND ($1::bigint IS NULL OR EXISTS
    (SELECT 1 FROM (SELECT $1::bigint AS key) h WHERE {is_key}))

-- statement: whose
SELECT h.owner, h.fence, h.meta FROM {t}_holders h
JOIN pg_locks l ON l.pid = h.pid AND l.granted AND {is_key} WHERE h.name = $1

-- statement: holder
SELECT h.name, h.fence, h.ttl, extract(epoch FROM clock_timestamp() - h.since),
  extract(epoch FROM h.expires_at - clock_timestamp()), h.meta
FROM {t}_holders h JOIN pg_locks l ON l.pid = h.pid AND l.granted AND {is_key}
WHERE h.expires_at > clock_timestamp() AND h.name = $1

-- statement: scan
SELECT h.name, h.fence, h.ttl, extract(epoch FROM clock_timestamp() - h.since),
  extract(epoch FROM h.expires_at - clock_timestamp()), h.meta
FROM {t}_holders h JOIN pg_locks l ON l.pid = h.pid AND l.granted AND {is_key}
WHERE h.expires_at > clock_timestamp() AND starts_with(h.name, $1) ORDER BY h.name

-- statement: waiters
SELECT extract(epoch FROM clock_timestamp() - coalesce(l.waitstart, now())), l.pid
FROM (SELECT $1::bigint AS key) h JOIN pg_locks l ON NOT l.granted AND {is_key}
ORDER BY 1 DESC

-- statement: cancel
SELECT pg_cancel_backend($1::int)
