-- The tables of all modes, and why nobody is missed. ({t} is schema and table prefix.)
--
-- * _locks has one row for each name in use, and for a while after: who holds it and until when,
--   on the server's clock. owner = '' is free; queued says that _waiters may have rows for
--   it, and no row of it has a place before turn. inbox is that of a holder which was handed
--   the lock and has not been heard of since.
-- * _waiters is the queue. It is unlogged: a crash empties it, and waiters queue anew.
--   Its places come from _place, which is logged: an unlogged sequence cannot be used any more
--   where a standby of PostgreSQL 15 was promoted.
--   _revoked is what holders have to be told. A client that listens for its waiters holds an
--   advisory lock on its inbox: if that is to be had, nobody listens any more, and whoever hands a
--   lock on passes over them at once.
-- * _floor is a sequence that stands at the highest fence of any row that was removed. It is
--   raised *before* the rows go. Reading a sequence shows its newest value, whatever the snapshot. Who
--   makes a new row for a name has seen that there is none, or reads it once more when it has made
--   the row: one that went meanwhile may have had a higher fence, if the clock was set back. So
--   fences never go back.
-- * _fence is the sequence of mode=row. That of mode=advisory exists once in a database,
--   whatever the options are: the server's advisory locks exclude all of its clients, so their fences
--   come from one counter. _holders tells who holds in both.
--   That table is for people: nothing is decided by it, so it is unlogged. A row says who held a name
--   last; whether it still does, the server's own locks or transactions tell.
-- * _rows are what mode=row locks.
--
-- Whoever hands a lock on has locked the name's row, and is a function: in READ COMMITTED each
-- statement of a function sees what was committed before *it* began, so nothing is decided by what was
-- true before the row was ours. The two statements that do without a function (lease.sql)
-- decide by columns of that one row, which the server reads again once it has locked it.
--
-- Who joins a queue does not lock the row, or each release would wait for joiners, and they for its
-- way to the disk. Nobody is missed all the same:
--
-- * A joiner holds an advisory lock on the queue, shared with other joiners, until its entry can be
--   seen. Having it, and having made the entry, it reads the row: the entry counts only if somebody
--   holds the lock who knows of a queue (queued).
-- * Such a holder frees the lock for all, and takes queued back, only if it has that advisory lock
--   alone and then finds the queue empty. If that was before the joiner had its share, the joiner
--   reads it and asks again with the row locked. If it comes after, it finds the entry.
-- * A joiner takes its share or goes the other way, and never waits for the row. Who wants that lock
--   alone has the row, and waits for nobody but joiners. So nobody waits in a circle.
-- * A waiter that asks again may find that it is just being handed the lock: its entry is deleted
--   under it, and it makes a new one. It waited for that to be committed, so it reads that it holds
--   the lock, and takes the entry back.
-- * Who finds that nobody listens for a waiter passes it over only when it has that advisory lock
--   alone: before, the waiter may be joining anew, with an inbox that is heard.
-- * Who leaves the queue locks the row, like who hands on. A release that had to wait for the row may
--   have chosen somebody who is gone: it sees that when it deletes the entry, and chooses again.
--
-- A grant and a renewal are on disk before anybody is told of them, and so is a release that hands
-- the lock over. Giving back what nobody waits for, and queueing, need not be: if a crash forgets
-- them, the lock is held until its ttl ends, or a waiter queues anew. Whoever is granted the
-- lock next has that written to disk, and all before it.

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
