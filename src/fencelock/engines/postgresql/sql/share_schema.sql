-- The tables of semaphores, read/write locks and memos. ({t} is schema and table prefix.) They are
-- apart from those of locks: names of different kinds have nothing in common, and a role that has
-- privileges on the older tables only can still lock.
--
-- * _share_names has one row for each kind and name in use, and for a while after: how many units
--   it has (capacity), how many nobody holds (free), its last fence, which slots are held (one bit
--   each, up to the highest that was) and which was given last; an rwlock has no slots. queued says
--   that _share_queue may have rows for it. No share of it ends before ends_at, so a request that
--   takes or gives back one need not read the others. A row without holders and waiters has no
--   limit: the next request sets it.
-- * _shares has a row for each holder: how many units, which slot, and until when, on the server's
--   clock. claimed and inbox mean the same as in _locks.
-- * _share_queue is the queue, unlogged like _waiters, and with positions from the same sequence.
-- * _memos has the memos of each name: items with their numbers, and until when they are kept.
--
-- All changes to a name are made by functions that first lock its row in _share_names: each
-- statement of a function sees what was committed before. That includes joining the queue, and
-- renewing: a renewal may end sooner than what it renews, and ends_at must not be later. Only a
-- heartbeat locks rows without that of their name; it waits for nobody.
--
-- Fences are drawn from the row of the name, as those of locks are from _locks, and the same floor
-- is raised before a row goes. A transaction that inserts a new row reads the floor after that: the
-- one that removed the former row has raised the floor by then.

CREATE TABLE IF NOT EXISTS {t}_share_names (
  name text COLLATE "C",
  kind text COLLATE "C",
  capacity integer NOT NULL,
  free integer NOT NULL,
  fence bigint NOT NULL,
  slots bit varying NOT NULL,
  given integer,
  queued boolean NOT NULL,
  ends_at timestamptz NOT NULL,
  used_at timestamptz NOT NULL,
  PRIMARY KEY (name, kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

CREATE TABLE IF NOT EXISTS {t}_shares (
  name text COLLATE "C",
  kind text COLLATE "C",
  owner text COLLATE "C",
  units integer NOT NULL,
  slot integer,
  fence bigint NOT NULL,
  ttl double precision NOT NULL,
  since timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  claimed boolean NOT NULL,
  inbox text NOT NULL,
  meta text NOT NULL,
  PRIMARY KEY (name, kind, owner)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

CREATE UNLOGGED TABLE IF NOT EXISTS {t}_share_queue (
  name text COLLATE "C",
  kind text COLLATE "C",
  owner text COLLATE "C",
  place bigint NOT NULL DEFAULT nextval('{t}_place'),
  units integer NOT NULL,
  ttl double precision NOT NULL,
  since timestamptz NOT NULL,
  seen_at timestamptz NOT NULL,
  lapsed boolean NOT NULL,
  inbox text NOT NULL,
  meta text NOT NULL,
  PRIMARY KEY (name, kind, owner)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX IF NOT EXISTS {p}_share_queue_in_order ON {t}_share_queue (name, kind, place);
CREATE INDEX IF NOT EXISTS {p}_share_queue_by_inbox ON {t}_share_queue (inbox);

CREATE TABLE IF NOT EXISTS {t}_memos (
  name text COLLATE "C" PRIMARY KEY,
  items jsonb NOT NULL,
  until timestamptz NOT NULL
);
