"""What the modes keep in the database, as text: nothing here imports a driver.

* ``_locks`` has one row for each name in use, and for a while after: who holds it and until when,
  on the server's clock. ``owner = ''`` is free; ``queued`` says that ``_waiters`` has rows for it.
  ``inbox`` is that of a holder which was handed the lock and has not been heard of since.
* ``_waiters`` is the queue, ``_revoked`` what holders have to be told. A client that listens for
  its waiters holds an advisory lock on its inbox: if that is to be had, nobody listens any more,
  and whoever hands a lock on passes over them at once.
* ``_floor`` is a sequence that stands at the highest fence of any row that was removed. It is
  raised *before* the rows go. Reading a sequence shows its newest value, whatever the snapshot, so
  who makes a new row for a name cannot miss it: fences never go back.
* ``_fence`` is the sequence of the session-bound modes, and ``_holders`` tells who holds there.
  That table is for people: nothing is decided by it, so it is unlogged. A row says who held a name
  last; whether it still does, the server's own locks or transactions tell.
* ``_rows`` are what ``mode=row`` locks.

Everything that changes the queue of a name, or hands the lock on, first locks the name's row, and
is a function: in READ COMMITTED each statement of a function sees what was committed before *it*
began, so nothing is decided by what was true before the row was ours. The two statements that do
without a function (``statements.py``) decide by columns of that one row, which the server reads
again once it has locked it.

A grant and a renewal are on disk before anybody is told of them, and so is a release that hands
the lock over. Giving back what nobody waits for, and queueing, need not be: if a crash forgets
them, the lock is held until its ttl ends, or a waiter stands in line anew. Whoever is granted the
lock next has that written to disk, and all before it.
"""

from __future__ import annotations

import re

from ...errors import Misconfigured

VERSION = 2
"""Part of the functions' names: clients of two versions may share the tables. Those of the first
have no ``h`` before the id of their inbox; they are called, and claim the lock by asking again."""
SPACE = 0x46454E43
"""Of the advisory locks with two keys, which we use among ourselves; locks of users have one."""

_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,30}")

_CLAIM_S = 0.5  # how long a lock waits for somebody who was called to it
_SHORT_S = 10  # as often do listeners look by themselves; who waits for a shorter lease is told
_FORGET_S = 30  # a waiter that was not seen for so long is dead
_UNUSED_S = 60  # a free row stays for so long, in case the name is used again
_TIDY_MAX = 1000

# The wall clock in microseconds, unless it claims the far future.
_CLOCK_US = "least((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 4503599627370495)"

_TABLES = """
CREATE SEQUENCE IF NOT EXISTS {t}_floor AS bigint;
CREATE SEQUENCE IF NOT EXISTS {t}_fence AS bigint;

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
  inbox text NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
ALTER TABLE {t}_locks ADD COLUMN IF NOT EXISTS inbox text NOT NULL DEFAULT '';

CREATE TABLE IF NOT EXISTS {t}_waiters (
  owner text PRIMARY KEY,
  name text COLLATE "C" NOT NULL,
  place bigint GENERATED ALWAYS AS IDENTITY,
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
"""

_FUNCTIONS = """
-- Do not wait for the disk, unless a lock was handed over in this transaction.
CREATE OR REPLACE FUNCTION {f}_be_lazy(p_may boolean) RETURNS void AS $$
BEGIN
  IF p_may AND current_setting('fencelock.handed', true) IS DISTINCT FROM 'on' THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
END $$ LANGUAGE plpgsql;

-- Whether this very session is the one that listens to an inbox.
CREATE OR REPLACE FUNCTION {f}_listens(p_inbox text) RETURNS boolean AS $$
  SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    AND mode = 'ExclusiveLock' AND classid::bigint = {space}
    AND objid::bigint = (hashtext(p_inbox)::bigint & 4294967295))
$$ LANGUAGE sql;

-- Hand a lock over whole: the waiter is told that it holds it, and how long it has waited, so it
-- knows since when at the latest. That is on disk before it is told.
CREATE OR REPLACE FUNCTION {f}_hand_over(v_waiter {t}_waiters, v_now timestamptz)
RETURNS {t}_locks AS $$
DECLARE
  v_row {t}_locks;
BEGIN
  DELETE FROM {t}_waiters WHERE owner = v_waiter.owner;
  UPDATE {t}_locks SET owner = v_waiter.owner, fence = greatest(fence + 1, {us}),
    ttl = v_waiter.ttl, since = v_now, claimed = true, meta = v_waiter.meta,
    inbox = v_waiter.inbox, expires_at = v_now + v_waiter.ttl * interval '1 second',
    queued = EXISTS (SELECT 1 FROM {t}_waiters WHERE name = v_waiter.name)
    WHERE name = v_waiter.name RETURNING * INTO v_row;
  PERFORM pg_notify(v_waiter.inbox, v_waiter.owner || ' ' || v_row.fence || ' ' ||
    extract(epoch FROM v_now - v_waiter.since)), set_config('fencelock.handed', 'on', true);
  RETURN v_row;
END $$ LANGUAGE plpgsql;

-- Give a free lock to the first waiter that answers, and tell it. Who cannot be told what it holds
-- is called: it has a moment to claim the lock.
CREATE OR REPLACE FUNCTION {f}_hand_on(p_name text) RETURNS {t}_locks AS $$
DECLARE
  v_row {t}_locks;
  v_waiter {t}_waiters;
  v_now timestamptz := clock_timestamp();
  v_old timestamptz := v_now - interval '{forget} seconds';
BEGIN
  LOOP
    SELECT * INTO v_waiter FROM {t}_waiters
      WHERE name = p_name AND (NOT lapsed OR seen_at < v_old) ORDER BY place LIMIT 1;
    IF NOT FOUND THEN
      UPDATE {t}_locks SET owner = '', claimed = false, expires_at = v_now, meta = '', inbox = '',
        queued = EXISTS (SELECT 1 FROM {t}_waiters WHERE name = p_name)
        WHERE name = p_name RETURNING * INTO v_row;
      RETURN v_row;
    ELSIF v_waiter.seen_at < v_old THEN
      DELETE FROM {t}_waiters WHERE owner = v_waiter.owner;
    ELSIF v_waiter.inbox <> ''
        AND pg_try_advisory_xact_lock_shared({space}, hashtext(v_waiter.inbox))
        AND NOT {f}_listens(v_waiter.inbox) THEN  -- a session does not keep out itself
      UPDATE {t}_waiters SET lapsed = true WHERE owner = v_waiter.owner;  -- nobody listens there
    ELSE
      EXIT;
    END IF;
  END LOOP;
  IF left(right(v_waiter.inbox, 17), 1) = 'h' THEN
    v_row := {f}_hand_over(v_waiter, v_now);
    IF v_waiter.ttl >= {short} THEN
      RETURN v_row;
    END IF;
  ELSE
    UPDATE {t}_locks SET owner = v_waiter.owner, fence = greatest(fence + 1, {us}),
      ttl = v_waiter.ttl, since = v_now, claimed = false, queued = true, meta = v_waiter.meta,
      inbox = '', expires_at = v_now + least(v_waiter.ttl, {claim}) * interval '1 second'
      WHERE name = p_name RETURNING * INTO v_row;
    IF v_waiter.inbox <> '' THEN
      PERFORM pg_notify(v_waiter.inbox, v_waiter.owner);
    END IF;
  END IF;
  PERFORM pg_notify(inbox, '') FROM (  -- should that client be dead, the next one sees to it
    SELECT inbox FROM {t}_waiters WHERE name = p_name AND NOT lapsed AND place > v_waiter.place
      AND inbox NOT IN ('', v_waiter.inbox) ORDER BY place LIMIT 1) behind;
  RETURN v_row;
END $$ LANGUAGE plpgsql;

-- Lock the row of a name and return it; an expired one is taken away and the lock handed on.
-- A row that a verified transaction still protects stays as it is, expired.
CREATE OR REPLACE FUNCTION {f}_current(p_name text) RETURNS {t}_locks AS $$
DECLARE
  v_row {t}_locks;
BEGIN
  LOOP
    SELECT * INTO v_row FROM {t}_locks WHERE name = p_name FOR NO KEY UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO {t}_locks SELECT p_name, '', last_value, 0, clock_timestamp(), clock_timestamp(),
      false, false, '', '' FROM {t}_floor ON CONFLICT (name) DO NOTHING;
  END LOOP;
  IF v_row.owner <> '' THEN
    IF v_row.expires_at > clock_timestamp() THEN
      RETURN v_row;
    END IF;
    PERFORM 1 FROM {t}_locks WHERE name = p_name FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN v_row;
    END IF;
    IF NOT v_row.claimed THEN
      UPDATE {t}_waiters SET lapsed = true WHERE owner = v_row.owner;
    ELSIF v_row.inbox <> '' THEN  -- nothing was heard of that client since it was handed the lock
      UPDATE {t}_waiters SET lapsed = true
        WHERE inbox = v_row.inbox AND name = p_name AND seen_at <= v_row.since;
    END IF;
  ELSIF NOT v_row.queued THEN
    RETURN v_row;
  END IF;
  RETURN {f}_hand_on(p_name);
END $$ LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {f}_acquire(
  p_name text, p_owner text, p_ttl double precision, p_meta text, p_queue boolean, p_inbox text,
  p_alone boolean,
  OUT r_fence bigint, OUT r_remaining double precision, OUT r_place bigint, OUT r_holder text
) AS $$
DECLARE
  v_row {t}_locks := {f}_current(p_name);
  v_now timestamptz := clock_timestamp();
BEGIN
  r_fence := 0;
  IF v_row.owner = '' OR (v_row.owner = p_owner AND v_row.expires_at > v_now) THEN
    IF v_row.queued THEN
      DELETE FROM {t}_waiters WHERE owner = p_owner;
    END IF;
    UPDATE {t}_locks SET ttl = p_ttl, claimed = true, meta = p_meta, owner = p_owner, inbox = '',
      expires_at = v_now + p_ttl * interval '1 second',
      fence = CASE v_row.owner WHEN p_owner THEN fence ELSE greatest(fence + 1, {us}) END,
      since = CASE v_row.owner WHEN p_owner THEN since ELSE v_now END,
      queued = v_row.queued AND EXISTS (SELECT 1 FROM {t}_waiters WHERE name = p_name)
      WHERE name = p_name RETURNING fence INTO r_fence;
    RETURN;
  END IF;
  PERFORM {f}_be_lazy(p_alone);
  IF p_queue THEN
    INSERT INTO {t}_waiters (owner, name, ttl, since, seen_at, lapsed, inbox, meta)
      VALUES (p_owner, p_name, p_ttl, v_now, v_now, false, p_inbox, p_meta)
      ON CONFLICT (owner) DO UPDATE SET seen_at = v_now, lapsed = false, inbox = p_inbox;
    IF NOT v_row.queued THEN
      UPDATE {t}_locks SET queued = true WHERE name = p_name;
    END IF;
  END IF;
  SELECT count(*) INTO r_place FROM {t}_waiters WHERE name = p_name AND place <
    coalesce((SELECT place FROM {t}_waiters WHERE owner = p_owner), 9223372036854775807);
  r_remaining := extract(epoch FROM v_row.expires_at - v_now);
  r_holder := v_row.meta;
END $$ LANGUAGE plpgsql;

-- Take an owner out of the queue and out of the lock. Return whether it held the lock, and whether
-- others are in the queue, or have just come from there.
CREATE OR REPLACE FUNCTION {f}_leave(
  p_name text, p_owner text, p_alone boolean, OUT r_held boolean, OUT r_queued boolean
) AS $$
DECLARE
  v_row {t}_locks;
BEGIN
  SELECT * INTO v_row FROM {t}_locks WHERE name = p_name FOR NO KEY UPDATE;
  r_held := FOUND AND v_row.owner = p_owner;
  r_queued := FOUND AND v_row.queued;
  IF r_queued AND NOT (r_held AND v_row.claimed) THEN
    DELETE FROM {t}_waiters WHERE owner = p_owner;
    IF NOT r_held THEN
      UPDATE {t}_locks SET queued = false WHERE name = p_name
        AND NOT EXISTS (SELECT 1 FROM {t}_waiters WHERE name = p_name);
    END IF;
  END IF;
  IF r_held THEN
    r_held := v_row.expires_at > clock_timestamp();
    v_row := {f}_hand_on(p_name);
    r_queued := v_row.queued OR v_row.owner <> '';
  END IF;
  PERFORM {f}_be_lazy(p_alone);
END $$ LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {f}_revoke(p_name text, p_reason text) RETURNS boolean AS $$
DECLARE
  v_row {t}_locks := {f}_current(p_name);
BEGIN
  IF v_row.owner = '' OR NOT v_row.claimed OR v_row.expires_at <= clock_timestamp() THEN
    RETURN false;
  END IF;
  PERFORM 1 FROM {t}_locks WHERE name = p_name FOR UPDATE;
  DELETE FROM {t}_revoked WHERE until < clock_timestamp();
  INSERT INTO {t}_revoked VALUES (v_row.owner, p_reason,
    v_row.expires_at + interval '{forget} seconds')
    ON CONFLICT (owner) DO UPDATE SET reason = p_reason, until = excluded.until;
  PERFORM {f}_hand_on(p_name);
  RETURN true;
END $$ LANGUAGE plpgsql;

-- Hand on what the waiters of an inbox wait for and nobody released. Return whom to wake, how many
-- wait and are not passed over, and in how many seconds the next of those locks would be free
-- without a word.
CREATE OR REPLACE FUNCTION {f}_settle(p_inbox text)
RETURNS TABLE (r_owner text, r_waiting bigint, r_next double precision) AS $$
DECLARE
  v_name text;
BEGIN
  FOR v_name IN SELECT DISTINCT l.name FROM {t}_waiters w JOIN {t}_locks l ON l.name = w.name
    WHERE w.inbox = p_inbox AND l.expires_at <= clock_timestamp() ORDER BY l.name
  LOOP
    PERFORM {f}_current(v_name);
  END LOOP;
  RETURN QUERY SELECT CASE WHEN l.owner IN ('', w.owner) OR l.name IS NULL THEN w.owner END,
    count(*) FILTER (WHERE NOT w.lapsed) OVER (),
    extract(epoch FROM min(l.expires_at) OVER () - clock_timestamp())::double precision
    FROM {t}_waiters w LEFT JOIN {t}_locks l ON l.name = w.name WHERE w.inbox = p_inbox
    ORDER BY 1 LIMIT {tidy};
END $$ LANGUAGE plpgsql;

-- Remove rows that nobody used for a while; the floor is raised before they go.
CREATE OR REPLACE FUNCTION {f}_tidy() RETURNS void AS $$
DECLARE
  v_names text[];
  v_highest bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock({space}, hashtext('{t}_floor')) THEN
    RETURN;
  END IF;
  SELECT array_agg(name), max(fence) INTO v_names, v_highest FROM (
    SELECT name, fence FROM {t}_locks
    WHERE expires_at < clock_timestamp() - interval '{unused} seconds' AND NOT queued
    LIMIT {tidy} FOR UPDATE SKIP LOCKED) unused;
  IF v_highest > (SELECT last_value FROM {t}_floor) THEN
    PERFORM setval('{t}_floor', v_highest);
  END IF;
  DELETE FROM {t}_locks WHERE name = ANY (v_names);
  DELETE FROM {t}_revoked WHERE until < clock_timestamp();
END $$ LANGUAGE plpgsql;

-- Raise the sequence of the session-bound modes to the clock. One at a time, and only when the
-- clock is so far ahead that nothing drawn at this very moment can be drawn again.
CREATE OR REPLACE FUNCTION {f}_lift() RETURNS void AS $$
BEGIN
  PERFORM pg_advisory_xact_lock({space}, hashtext('{t}_fence'));
  IF {us} > (SELECT last_value FROM {t}_fence) + 1000 THEN
    PERFORM setval('{t}_fence', {us});
  END IF;
  DELETE FROM {t}_holders WHERE expires_at < clock_timestamp() - interval '{unused} seconds';
END $$ LANGUAGE plpgsql;
"""


def schema(table: str = "fencelock", namespace: str = "") -> str:
    """The statements that make everything; running them again does no harm."""
    check_identifier(table)
    text = (_TABLES + _FUNCTIONS).replace("{us}", _CLOCK_US).replace("{p}", table)
    text = text.replace("{space}", str(SPACE))
    text = text.replace("{t}", qualified(table, namespace)).replace(
        "{f}", functions(table, namespace)
    )
    numbers = {
        "claim": _CLAIM_S,
        "short": _SHORT_S,
        "forget": _FORGET_S,
        "unused": _UNUSED_S,
        "tidy": _TIDY_MAX,
    }
    for word, number in numbers.items():
        text = text.replace(f"{{{word}}}", str(number))
    return text.strip() + "\n"


def check_identifier(value: object) -> str:
    """The beginning of names, or the name of a schema: identifiers are never quoted by hand."""
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise Misconfigured(
            f"{value!r} is no name for tables here: up to 31 of a-z, 0-9 and _, no digit first"
        )
    return value


def qualified(table: str, namespace: str) -> str:
    """The beginning of the tables' names."""
    return f'"{namespace}".{table}' if namespace else table


def functions(table: str, namespace: str) -> str:
    """The beginning of the functions' names."""
    return f"{qualified(table, namespace)}_v{VERSION}"
