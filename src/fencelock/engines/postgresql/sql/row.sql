-- The statements of locks that live in a transaction: mode=row, and mode=advisory with
-- bound=transaction. The first four are sent over the transaction's own connection; their
-- parameters are the name, the key of an advisory lock, and the idle timeout of the transaction.
-- Each returns the fence if the lock was taken, whether there is a row to lock, the id of the
-- transaction, and how many seconds it waited.

-- statement: try_row, once
SELECT CASE WHEN $2::bigint IS NOT NULL
    AND (SELECT 1 FROM {t}_rows WHERE name = $1 FOR UPDATE SKIP LOCKED) = 1
    THEN nextval('{c}_fence') END,
  EXISTS (SELECT 1 FROM {t}_rows WHERE name = $1), pg_current_xact_id()::text,
  extract(epoch FROM clock_timestamp() - statement_timestamp()),
  set_config('idle_in_transaction_session_timeout', $3, true)

-- statement: lock_row, once
SELECT CASE WHEN $2::bigint IS NOT NULL
    AND (SELECT 1 FROM {t}_rows WHERE name = $1 FOR UPDATE) = 1
    THEN nextval('{c}_fence') END,
  EXISTS (SELECT 1 FROM {t}_rows WHERE name = $1), pg_current_xact_id()::text,
  extract(epoch FROM clock_timestamp() - statement_timestamp()),
  set_config('idle_in_transaction_session_timeout', $3, true)

-- statement: try_key, once
SELECT CASE WHEN $1::text IS NOT NULL AND pg_try_advisory_xact_lock($2::bigint)
    THEN nextval('{c}_fence') END,
  true, pg_current_xact_id()::text,
  extract(epoch FROM clock_timestamp() - statement_timestamp()),
  set_config('idle_in_transaction_session_timeout', $3, true)

-- statement: lock_key, once
SELECT CASE WHEN $1::text IS NOT NULL AND pg_advisory_xact_lock($2::bigint)::text IS NOT NULL
    THEN nextval('{c}_fence') END,
  true, pg_current_xact_id()::text,
  extract(epoch FROM clock_timestamp() - statement_timestamp()),
  set_config('idle_in_transaction_session_timeout', $3, true)

-- Begin, and return which transaction of which process it is: a pooler may give each transaction
-- another process, and only inside it is that certain.
-- statement: begin, once
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_backend_pid(), (extract(epoch FROM now()) * 1000000)::bigint

-- statement: commit, once
COMMIT

-- Commit one particular transaction, and no other that its holder may have begun since: in another
-- one, this fails before the commit, and leaves that transaction to be rolled back. The id is
-- filled in as text: with a parameter, only one statement could be sent.
-- statement: commit_certain, once
SELECT 1 / (coalesce(pg_current_xact_id_if_assigned()::text, '') = '{xid}')::int; COMMIT

-- statement: roll_back, once
ROLLBACK

-- statement: heartbeat, once
SELECT 1

-- statement: lift, once
SELECT {c}_lift()

-- statement: make_row
INSERT INTO {t}_rows VALUES ($1) ON CONFLICT (name) DO NOTHING

-- statement: sweep
SELECT {t}_sweep()

-- This locks the rows as a holder does: `tidied` waits for it to end.
-- statement: tidy, once
WITH alone AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock({space}, hashtext('{t}_rows')) AS so,
    set_config('synchronous_commit', 'off', true)),
  unused AS (SELECT r.name FROM {t}_rows r, alone WHERE alone.so
      AND NOT EXISTS (SELECT 1 FROM {t}_holders h WHERE h.name = r.name)
    LIMIT {tidy} FOR UPDATE OF r SKIP LOCKED)
DELETE FROM {t}_rows WHERE name IN (SELECT name FROM unused)

-- statement: tidied
SELECT pg_advisory_xact_lock_shared({space}, hashtext('{t}_rows'))

-- statement: show
INSERT INTO {t}_holders VALUES ($1, $2, NULL, $3::bigint, $4::float8,
  clock_timestamp(), clock_timestamp() + $4::float8 * interval '1 second', $5::int, $6, $7)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, key = NULL,
  fence = excluded.fence, ttl = excluded.ttl, since = excluded.since,
  expires_at = excluded.expires_at, pid = excluded.pid, xid = excluded.xid, meta = excluded.meta

-- statement: renew
WITH renewed AS (UPDATE {t}_holders h SET ttl = g.ttl,
    expires_at = clock_timestamp() + g.ttl * interval '1 second'
  FROM unnest($1::text[], $2::text[], $3::float8[]) AS g (name, owner, ttl)
  WHERE h.name = g.name AND h.owner = g.owner)
SELECT owner FROM unnest($2::text[], $4::text[]) AS g (owner, xid)
WHERE pg_xact_status(xid::xid8) = 'in progress'

-- statement: status
SELECT pg_xact_status($1::text::xid8)

-- A signal reaches a process only while it is in that very transaction: it may serve another client
-- after that, if a pooler stands between.
-- statement: terminate
SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity
WHERE pid = $1::int AND (extract(epoch FROM xact_start) * 1000000)::bigint = $2::bigint

-- statement: cancel
SELECT pg_cancel_backend(pid) FROM pg_stat_activity
WHERE pid = $1::int AND (extract(epoch FROM xact_start) * 1000000)::bigint = $2::bigint

-- statement: whose
SELECT owner, fence, meta FROM {t}_holders
WHERE name = $1 AND expires_at > clock_timestamp() AND pg_xact_status(xid::xid8) = 'in progress'

-- statement: holder
SELECT name, fence, ttl, extract(epoch FROM clock_timestamp() - since),
  extract(epoch FROM expires_at - clock_timestamp()), meta FROM {t}_holders
WHERE expires_at > clock_timestamp() AND pg_xact_status(xid::xid8) = 'in progress' AND name = $1

-- statement: scan
SELECT name, fence, ttl, extract(epoch FROM clock_timestamp() - since),
  extract(epoch FROM expires_at - clock_timestamp()), meta FROM {t}_holders
WHERE expires_at > clock_timestamp() AND pg_xact_status(xid::xid8) = 'in progress'
  AND starts_with(name, $1) ORDER BY name
