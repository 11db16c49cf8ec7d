-- How a lock goes from one owner to the next: the functions that the others build on.
-- Their caller has locked the name's row; _current locks it itself.

-- If p_may, have the commit not wait for the disk, unless this transaction handed a lock over.
CREATE OR REPLACE FUNCTION {t}_be_lazy(p_may boolean) RETURNS void AS $$
BEGIN
  IF p_may AND current_setting('fencelock.handed', true) IS DISTINCT FROM 'on' THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  END IF;
END $$ LANGUAGE plpgsql;

-- Undo a statement during which the name's row was removed: the client sends it again.
CREATE OR REPLACE FUNCTION {t}_again() RETURNS bigint AS $$
BEGIN
  RAISE EXCEPTION 'the row was removed meanwhile' USING ERRCODE = 'serialization_failure';
END $$ LANGUAGE plpgsql;

-- Return whether this very session is the one that listens to an inbox.
CREATE OR REPLACE FUNCTION {t}_listens(p_inbox text) RETURNS boolean AS $$
  SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    AND mode = 'ExclusiveLock' AND classid::bigint = {space}
    AND objid::bigint = (hashtext(p_inbox)::bigint & 4294967295))
$$ LANGUAGE sql;

-- Store the position (turn) before which a queue is empty, so that a search for the first waiter
-- need not pass all that have left. It stays while an owner is joining: its position may be lower.
CREATE OR REPLACE FUNCTION {t}_skip(p_name text, p_turn bigint, p_place bigint) RETURNS void AS $$
BEGIN
  IF p_place > p_turn + {skip} AND pg_try_advisory_xact_lock({queues}, hashtext(p_name)) THEN
    UPDATE {t}_locks SET turn = coalesce(
      (SELECT min(place) FROM {t}_waiters WHERE name = p_name AND place >= p_turn), p_place)
      WHERE name = p_name;
  END IF;
END $$ LANGUAGE plpgsql;

-- Give a free lock to the first waiter that can be reached, and notify it: that it holds the lock,
-- and how long it has waited, from which it knows a time not later than the grant. The grant is on
-- disk before the notification is sent. A waiter without an inbox polls: it has a moment to claim
-- the lock.
CREATE OR REPLACE FUNCTION {t}_hand_on(p_name text) RETURNS {t}_locks AS $$
DECLARE
  v_row {t}_locks;
  v_waiter {t}_waiters;
  v_now timestamptz := clock_timestamp();
  v_old timestamptz := v_now - interval '{forget} seconds';
  v_turn bigint := (SELECT turn FROM {t}_locks WHERE name = p_name);
  v_deaf boolean;
  v_whole boolean;
  v_last boolean := false;
BEGIN
  LOOP
    SELECT * INTO v_waiter FROM {t}_waiters
      WHERE name = p_name AND place >= v_turn AND (NOT lapsed OR seen_at < v_old)
      ORDER BY place LIMIT 1;
    v_deaf := v_waiter.inbox <> ''
      AND pg_try_advisory_xact_lock_shared({space}, hashtext(v_waiter.inbox))
      AND NOT {t}_listens(v_waiter.inbox);  -- a session does not exclude itself
    EXIT WHEN v_waiter.seen_at >= v_old AND NOT v_deaf;
    IF NOT v_last THEN  -- wait for those that are joining, perhaps again, then retry
      PERFORM pg_advisory_xact_lock({queues}, hashtext(p_name));
      v_last := true;
    ELSIF v_waiter.owner IS NULL THEN
      UPDATE {t}_locks SET owner = '', claimed = false, expires_at = v_now, meta = '', inbox = '',
        queued = EXISTS (SELECT 1 FROM {t}_waiters WHERE name = p_name AND place >= v_turn)
        WHERE name = p_name RETURNING * INTO v_row;
      RETURN v_row;
    ELSIF v_waiter.seen_at < v_old THEN
      DELETE FROM {t}_waiters WHERE owner = v_waiter.owner;
    ELSE
      UPDATE {t}_waiters SET lapsed = true WHERE owner = v_waiter.owner;
    END IF;
  END LOOP;
  v_whole := v_waiter.inbox <> '';
  UPDATE {t}_locks SET owner = v_waiter.owner, fence = greatest(fence + 1, {us}),
    ttl = v_waiter.ttl, since = v_now, claimed = v_whole, queued = true, meta = v_waiter.meta,
    inbox = v_waiter.inbox, expires_at = v_now + interval '1s' *
      CASE WHEN v_whole THEN v_waiter.ttl ELSE least(v_waiter.ttl, {claim}) END
    WHERE name = p_name RETURNING * INTO v_row;
  IF v_whole THEN
    DELETE FROM {t}_waiters WHERE owner = v_waiter.owner;
    PERFORM pg_notify(v_waiter.inbox, v_waiter.owner || ' ' || v_row.fence || ' ' ||
      date_part('epoch', v_now - v_waiter.since)), set_config('fencelock.handed', 'on', true),
      {t}_skip(p_name, v_turn, v_waiter.place);
  END IF;
  IF NOT v_whole OR v_waiter.ttl < {short} THEN
    PERFORM pg_notify(inbox, '') FROM (  -- if that client is dead, the next one settles
      SELECT inbox FROM {t}_waiters WHERE name = p_name AND NOT lapsed AND place > v_waiter.place
        AND inbox NOT IN ('', v_waiter.inbox) ORDER BY place LIMIT 1) behind;
  END IF;
  RETURN v_row;
END $$ LANGUAGE plpgsql;

-- Lock the row of a name and return it; a lock that has expired, or is free while others wait, is
-- handed on before. A row that a verified transaction still protects stays as it is, expired.
CREATE OR REPLACE FUNCTION {t}_current(p_name text) RETURNS {t}_locks AS $$
DECLARE
  v_row {t}_locks;
BEGIN
  LOOP
    SELECT * INTO v_row FROM {t}_locks WHERE name = p_name FOR NO KEY UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO {t}_locks (name, owner, fence, ttl, since, expires_at, claimed, queued, meta)
      SELECT p_name, '', last_value, 0, clock_timestamp(), clock_timestamp(), false, false, ''
      FROM {t}_floor ON CONFLICT (name) DO NOTHING;
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
    ELSIF v_row.inbox <> '' THEN  -- that client has not answered since it was handed the lock
      UPDATE {t}_waiters SET lapsed = true
        WHERE inbox = v_row.inbox AND name = p_name AND seen_at <= v_row.since;
    END IF;
  ELSIF NOT v_row.queued THEN
    RETURN v_row;
  END IF;
  RETURN {t}_hand_on(p_name);
END $$ LANGUAGE plpgsql;
