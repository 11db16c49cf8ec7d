-- The tables of all modes, and why no waiter is missed. ({t} is schema and table prefix.)
--
-- * _locks has one row for each name in use, and for a while after: who holds it and until when, on
--   the server's clock. owner = '' means that it is free; queued says that _waiters may have rows
--   for it, and none of them has a position (place) before turn. inbox is that of a holder to which
--   the lock was handed and which has not answered since.
-- * _waiters is the queue. It is unlogged: a crash empties it, and waiters queue again.
--   Its positions come from _place, which is logged: an unlogged sequence cannot be used any more
--   where a standby of PostgreSQL 15 was promoted.
--   _revoked has the reasons of revocations, for the holders to read. A client that listens for its
--   waiters holds an advisory lock on its inbox: if another session can take that lock, nobody
--   listens any more, and a function that hands a lock on passes over these waiters at once.
-- * _floor is a sequence whose value is the highest fence of any row that was removed. It is raised
--   *before* the rows go. Reading a sequence returns its newest value, whatever the snapshot. A
--   transaction that inserts a new row for a name has seen that there is none, or reads the floor
--   once more when it has inserted the row: a row that went meanwhile may have had a higher fence,
--   if the clock was set back. So fences never go back.
-- * _fence is the sequence of mode=row. That of mode=advisory exists once in a database, whatever
--   the options are: the server's advisory locks exclude all of its clients, so their fences come
--   from one counter. _holders has the holders of both modes.
--   That table is for people to read: nothing is decided by it, so it is unlogged. A row says who
--   held a name last; whether that owner still does, the server's own locks or transactions tell.
-- * _rows has the rows that mode=row locks.
--
-- A lock is handed on by a function that has locked the name's row: in READ COMMITTED each
-- statement of a function sees what was committed before *it* began, so nothing is decided by what
-- was true before the row was locked. The two statements that do without a function (lease.sql)
-- decide by columns of that one row, which the server reads again once it has locked the row.
--
-- A joiner does not lock the row: else each release would wait for joiners, and joiners for the
-- release's commit to reach the disk. No waiter is missed all the same:
--
-- * A joiner holds an advisory lock on the queue, shared with other joiners, until its entry is
--   visible. After it has got that lock, and has inserted the entry, it reads the row: the entry
--   counts only if the lock is held, and by a holder that knows of a queue (queued).
-- * The function that releases for such a holder frees the lock for all, and clears queued, only if
--   it has that advisory lock in exclusive mode and then finds the queue empty. If that was before
--   the joiner had the shared lock, the joiner reads it and retries with the row locked. If it
--   comes after, the function finds the entry.
-- * A joiner gets the shared lock at once or calls acquire instead, and never waits for the row. A
--   transaction that wants the exclusive lock has locked the row, and waits for nobody but joiners.
--   So there is no deadlock.
-- * A waiter that joins again may do so just while the lock is handed to it: its entry is deleted
--   meanwhile, and it inserts a new one. It waited for the deletion to be committed, so it reads
--   that it holds the lock, and deletes the new entry.
-- * A function that finds that nobody listens for a waiter passes over it only when it has that
--   advisory lock in exclusive mode: before, the waiter may be joining again, with an inbox that
--   has a listener.
-- * Leaving the queue locks the row, as handing on does. A release that had to wait for the row may
--   have chosen a waiter that is gone: it notices when it deletes the entry, and chooses again.
--
-- A grant and a renewal are on disk before any client is told of them, and so is a release that
-- hands the lock over. A release for which nobody waits, and joining a queue, need not be: if a
-- crash loses them, the lock is held until its ttl ends, or a waiter queues again. The next grant
-- of the lock is written to disk, and with it all that was committed before.

CREATE SEQUENCE IF NOT EXISTS {t}_floor AS bigint;
CREATE SEQUENCE IF NOT EXISTS {t}_place AS bigint;

CREATE TABLE IF NOT EXISTS {t}_locks (
  name text COLLATE "C" PRIMARY KEY,
  owner text NOT NULL,
  fence bigint NOT NULL,
  ttl double precision NOT NULL,
  since timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  claimed boolean NOT NULL,
  queued boolean NOT NULL,
  meta text NOT NULL,
  inbox text NOT NULL DEFAULT '',
  turn bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

CREATE UNLOGGED TABLE IF NOT EXISTS {t}_waiters (
  owner text PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  place bigint NOT NULL DEFAULT nextval('{t}_place'),
  ttl double precision NOT NULL,
  since timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  lapsed boolean NOT NULL,
  inbox text NOT NULL,
  meta text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX IF NOT EXISTS {p}_waiters_in_order ON {t}_waiters (name, place);
CREATE INDEX IF NOT EXISTS {p}_waiters_by_inbox ON {t}_waiters (inbox);

CREATE TABLE IF NOT EXISTS {t}_revoked (
  owner text PRIMARY KEY,
  reason text NOT NULL,
  until timestamptz NOT NULL
);

CREATE UNLOGGED TABLE IF NOT EXISTS {t}_holders (
  name text COLLATE "C" PRIMARY KEY,
  owner text NOT NULL,
  key bigint,
  fence bigint NOT NULL,
  ttl double precision NOT NULL,
  since timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  pid integer NOT NULL,
  xid text,
  meta text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

CREATE TABLE IF NOT EXISTS {t}_rows (name text COLLATE "C" PRIMARY KEY);
