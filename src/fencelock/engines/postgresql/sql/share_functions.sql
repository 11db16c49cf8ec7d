-- Acquire, leave, renew and revoke shares, and hand on what is free. share_schema.sql has the
-- rules. The functions pass a row of _share_names on as a value; _note_share writes it back.

CREATE OR REPLACE FUNCTION {t}_note_share(v {t}_share_names) RETURNS void AS $$
BEGIN
  UPDATE {t}_share_names SET capacity = v.capacity, free = v.free, fence = v.fence,
    slots = v.slots, queued = v.queued, ends_at = v.ends_at, used_at = clock_timestamp()
    WHERE name = v.name AND kind = v.kind AND (capacity, free, fence, queued, ends_at)
      IS DISTINCT FROM (v.capacity, v.free, v.fence, v.queued, v.ends_at);
END $$ LANGUAGE plpgsql;

-- Return the slots of a semaphore after one of them was given (1) or given back (0).
CREATE OR REPLACE FUNCTION {t}_mark_slot(p_slots bit varying, p_slot integer, p_bit integer)
RETURNS bit varying AS $$
BEGIN
  IF p_slot IS NULL THEN
    RETURN p_slots;
  ELSIF p_slot = length(p_slots) THEN
    RETURN p_slots || p_bit::bit;
  END IF;
  RETURN set_bit(p_slots, p_slot, p_bit);
END $$ LANGUAGE plpgsql;

-- Remove the shares that have ended, unless a verified transaction still protects the name: then
-- they stay as they are, and keep their units. A waiter that did not claim its share has lapsed,
-- and so have the others of a client that has not answered since a share was handed to it.
CREATE OR REPLACE FUNCTION {t}_expire_shares(v_name {t}_share_names) RETURNS {t}_share_names AS $$
DECLARE
  v_gone {t}_shares;
BEGIN
  PERFORM 1 FROM {t}_share_names WHERE name = v_name.name AND kind = v_name.kind
    FOR UPDATE SKIP LOCKED;
  FOR v_gone IN DELETE FROM {t}_shares WHERE FOUND AND name = v_name.name AND kind = v_name.kind
    AND expires_at <= clock_timestamp() RETURNING *
  LOOP
    v_name.free := v_name.free + v_gone.units;
    v_name.slots := {t}_mark_slot(v_name.slots, v_gone.slot, 0);
    IF NOT v_gone.claimed THEN
      UPDATE {t}_share_queue SET lapsed = true
        WHERE name = v_name.name AND kind = v_name.kind AND owner = v_gone.owner;
    ELSIF v_gone.inbox <> '' THEN
      UPDATE {t}_share_queue SET lapsed = true WHERE inbox = v_gone.inbox
        AND name = v_name.name AND kind = v_name.kind AND seen_at <= v_gone.since;
    END IF;
  END LOOP;
  v_name.ends_at := coalesce((SELECT min(expires_at) FROM {t}_shares
    WHERE name = v_name.name AND kind = v_name.kind), 'infinity');
  RETURN v_name;
END $$ LANGUAGE plpgsql;

-- Give free units to the first waiters that can be reached, as long as they suffice for the first
-- of them. As with locks: a waiter with an inbox is notified of what it holds, which is on disk
-- before; a waiter without one has a moment to claim it.
CREATE OR REPLACE FUNCTION {t}_serve_shares(v_name {t}_share_names) RETURNS {t}_share_names AS $$
DECLARE
  v_waiter {t}_share_queue;
  v_now timestamptz := clock_timestamp();
  v_old timestamptz := v_now - interval '{forget} seconds';
  v_end timestamptz;
  v_slot integer;
  v_whole boolean;
BEGIN
  WHILE v_name.free > 0 LOOP
    SELECT q.* INTO v_waiter FROM {t}_share_queue q
      WHERE q.name = v_name.name AND q.kind = v_name.kind AND (NOT q.lapsed OR q.seen_at < v_old)
      AND NOT EXISTS (SELECT 1 FROM {t}_shares s
        WHERE s.name = q.name AND s.kind = q.kind AND s.owner = q.owner)
      ORDER BY q.place LIMIT 1;
    IF NOT FOUND THEN
      v_name.queued := EXISTS (SELECT 1 FROM {t}_share_queue
        WHERE name = v_name.name AND kind = v_name.kind);
      EXIT;
    ELSIF v_waiter.seen_at < v_old THEN
      DELETE FROM {t}_share_queue
        WHERE name = v_name.name AND kind = v_name.kind AND owner = v_waiter.owner;
      CONTINUE;
    END IF;
    v_whole := v_waiter.inbox <> '';
    IF v_whole AND pg_try_advisory_xact_lock_shared({space}, hashtext(v_waiter.inbox))
        AND NOT {t}_listens(v_waiter.inbox) THEN  -- nobody listens there
      UPDATE {t}_share_queue SET lapsed = true
        WHERE name = v_name.name AND kind = v_name.kind AND owner = v_waiter.owner;
      CONTINUE;
    END IF;
    EXIT WHEN v_waiter.units > v_name.free;
    v_end := v_now + interval '1s' *
      CASE WHEN v_whole THEN v_waiter.ttl ELSE least(v_waiter.ttl, {claim}) END;
    v_slot := CASE v_name.kind WHEN 'semaphore' THEN position(B'0' IN v_name.slots || B'0') - 1 END;
    v_name.free := v_name.free - v_waiter.units;
    v_name.fence := greatest(v_name.fence + 1, {us});
    v_name.slots := {t}_mark_slot(v_name.slots, v_slot, 1);
    v_name.ends_at := least(v_name.ends_at, v_end);
    INSERT INTO {t}_shares VALUES (v_name.name, v_name.kind, v_waiter.owner, v_waiter.units, v_slot,
      v_name.fence, v_waiter.ttl, v_now, v_end, v_whole, v_waiter.inbox, v_waiter.meta);
    IF v_whole THEN
      DELETE FROM {t}_share_queue
        WHERE name = v_name.name AND kind = v_name.kind AND owner = v_waiter.owner;
      PERFORM pg_notify(v_waiter.inbox, concat_ws(' ', v_waiter.owner, v_name.fence,
        date_part('epoch', v_now - v_waiter.since), v_slot)),
        set_config('fencelock.handed', 'on', true);
    END IF;
    IF NOT v_whole OR v_waiter.ttl < {short} THEN
      PERFORM pg_notify(inbox, '') FROM (  -- if that client is dead, the next one settles
        SELECT inbox FROM {t}_share_queue WHERE name = v_name.name AND kind = v_name.kind
          AND NOT lapsed AND place > v_waiter.place AND inbox NOT IN ('', v_waiter.inbox)
          ORDER BY place LIMIT 1) behind;
    END IF;
  END LOOP;
  RETURN v_name;
END $$ LANGUAGE plpgsql;

-- Lock the row of a name, remove the shares that have ended, and hand on what is free. A waiter
-- that sends this request itself is not passed over.
CREATE OR REPLACE FUNCTION {t}_current_share(
  p_name text, p_kind text, p_waiter text DEFAULT NULL, p_inbox text DEFAULT NULL
) RETURNS {t}_share_names AS $$
DECLARE
  v_name {t}_share_names;
BEGIN
  LOOP
    SELECT * INTO v_name FROM {t}_share_names WHERE name = p_name AND kind = p_kind
      FOR NO KEY UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO {t}_share_names
      VALUES (p_name, p_kind, 0, 0, 0, B'', NULL, false, 'infinity', clock_timestamp())
      ON CONFLICT (name, kind) DO NOTHING;
  END LOOP;
  IF v_name.fence = 0 THEN
    v_name.fence := (SELECT last_value FROM {t}_floor);
  END IF;
  IF v_name.ends_at <= clock_timestamp() THEN
    v_name := {t}_expire_shares(v_name);
  END IF;
  IF v_name.queued THEN
    IF p_waiter IS NOT NULL THEN
      UPDATE {t}_share_queue SET seen_at = clock_timestamp(), lapsed = false, inbox = p_inbox
        WHERE name = p_name AND kind = p_kind AND owner = p_waiter;
    END IF;
    v_name := {t}_serve_shares(v_name);
  END IF;
  RETURN v_name;
END $$ LANGUAGE plpgsql;

-- Take a share of a name that has enough free units and that nobody waits for; most are. In all
-- other cases return NULL: the client then calls acquire.
CREATE OR REPLACE FUNCTION {t}_take_share(
  p_name text, p_kind text, p_owner text, p_units integer, p_limit integer, p_ttl double precision,
  p_meta text, OUT r_fence bigint, OUT r_slot integer
) AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_end timestamptz := v_now + p_ttl * interval '1 second';
BEGIN
  UPDATE {t}_share_names SET free = free - p_units, fence = greatest(fence + 1, {us}),
    ends_at = least(ends_at, v_end), used_at = v_now,
    given = CASE kind WHEN 'semaphore' THEN position(B'0' IN slots || B'0') - 1 END,
    slots = CASE WHEN kind <> 'semaphore' THEN slots
      WHEN position(B'0' IN slots) = 0 THEN slots || B'1'
      ELSE set_bit(slots, position(B'0' IN slots) - 1, 1) END
    WHERE name = p_name AND kind = p_kind AND NOT queued AND capacity = p_limit
      AND free >= p_units AND ends_at > v_now
    RETURNING fence, given INTO r_fence, r_slot;
  IF FOUND THEN
    INSERT INTO {t}_shares VALUES (p_name, p_kind, p_owner, p_units, r_slot, r_fence, p_ttl, v_now,
      v_end, true, '', p_meta) ON CONFLICT (name, kind, owner) DO NOTHING;
    IF NOT FOUND THEN  -- it holds a share already
      UPDATE {t}_share_names SET free = free + p_units, slots = {t}_mark_slot(slots, r_slot, 0)
        WHERE name = p_name AND kind = p_kind;
      r_fence := NULL;
    END IF;
  END IF;
END $$ LANGUAGE plpgsql;

-- Take a share, or join the queue. Return a fence if the share is granted; r_limit alone if the
-- name is in use with another limit; else for how many seconds no share ends, how many wait before
-- this owner, and the meta of a holder.
CREATE OR REPLACE FUNCTION {t}_acquire_share(
  p_name text, p_kind text, p_owner text, p_units integer, p_limit integer, p_ttl double precision,
  p_meta text, p_queue boolean, p_inbox text, p_alone boolean,
  OUT r_fence bigint, OUT r_units integer, OUT r_slot integer, OUT r_limit integer,
  OUT r_remaining double precision, OUT r_place bigint, OUT r_holder text
) AS $$
DECLARE
  v_name {t}_share_names := {t}_current_share(
    p_name, p_kind, CASE WHEN p_queue THEN p_owner END, p_inbox);
  v_share {t}_shares;
  v_now timestamptz := clock_timestamp();
  v_end timestamptz := v_now + p_ttl * interval '1 second';
  v_first text;
BEGIN
  IF v_name.free = v_name.capacity AND NOT v_name.queued THEN
    v_name.capacity := p_limit;
    v_name.free := p_limit;
    v_name.slots := B'';
  ELSIF v_name.capacity <> p_limit THEN
    PERFORM {t}_note_share(v_name);
    r_limit := v_name.capacity;
    RETURN;
  END IF;
  IF v_name.free < v_name.capacity THEN
    SELECT * INTO v_share FROM {t}_shares
      WHERE name = p_name AND kind = p_kind AND owner = p_owner AND expires_at > v_now;
  END IF;
  IF v_name.queued AND v_share.owner IS NULL THEN
    SELECT q.owner INTO v_first FROM {t}_share_queue q
      WHERE q.name = p_name AND q.kind = p_kind AND NOT q.lapsed AND NOT EXISTS (
        SELECT 1 FROM {t}_shares s WHERE s.name = q.name AND s.kind = q.kind AND s.owner = q.owner)
      ORDER BY q.place LIMIT 1;
  END IF;
  IF v_share.owner IS NOT NULL THEN
    r_units := least(v_share.units, p_units);
    UPDATE {t}_shares SET units = r_units, ttl = p_ttl, expires_at = v_end, claimed = true,
      inbox = '', meta = p_meta WHERE name = p_name AND kind = p_kind AND owner = p_owner
      RETURNING fence, slot INTO r_fence, r_slot;
    v_name.free := v_name.free + v_share.units - r_units;
  ELSIF v_name.free >= p_units AND coalesce(v_first, p_owner) = p_owner THEN
    r_units := p_units;
    r_slot := CASE p_kind WHEN 'semaphore' THEN position(B'0' IN v_name.slots || B'0') - 1 END;
    r_fence := greatest(v_name.fence + 1, {us});
    INSERT INTO {t}_shares VALUES (p_name, p_kind, p_owner, p_units, r_slot, r_fence, p_ttl, v_now,
      v_end, true, '', p_meta);
    v_name.free := v_name.free - p_units;
    v_name.fence := r_fence;
    v_name.slots := {t}_mark_slot(v_name.slots, r_slot, 1);
  END IF;
  IF r_fence IS NOT NULL THEN
    v_name.ends_at := least(v_name.ends_at, v_end);
    IF v_name.queued THEN
      DELETE FROM {t}_share_queue WHERE name = p_name AND kind = p_kind AND owner = p_owner;
      v_name := {t}_serve_shares(v_name);  -- a writer that became a reader lets others in
    END IF;
    PERFORM {t}_note_share(v_name);
    RETURN;
  END IF;
  IF p_queue THEN
    INSERT INTO {t}_share_queue
      (name, kind, owner, units, ttl, since, seen_at, lapsed, inbox, meta)
      VALUES (p_name, p_kind, p_owner, p_units, p_ttl, v_now, v_now, false, p_inbox, p_meta)
      ON CONFLICT (name, kind, owner) DO NOTHING;
    v_name.queued := true;
  END IF;
  PERFORM {t}_be_lazy(p_alone), {t}_note_share(v_name);
  SELECT count(*) INTO r_place FROM {t}_share_queue WHERE name = p_name AND kind = p_kind AND
    place < coalesce((SELECT place FROM {t}_share_queue
      WHERE name = p_name AND kind = p_kind AND owner = p_owner), 9223372036854775807);
  r_remaining := date_part('epoch', least(v_name.ends_at, v_now + interval '1 day') - v_now);
  r_holder := (SELECT meta FROM {t}_shares WHERE name = p_name AND kind = p_kind LIMIT 1);
END $$ LANGUAGE plpgsql;

-- Give back a share of a name that nobody waits for, and return whether that was done. The commit
-- need not wait for the disk.
CREATE OR REPLACE FUNCTION {t}_give_back_share(p_name text, p_kind text, p_owner text)
RETURNS boolean AS $$
DECLARE
  v_units integer;
  v_slot integer;
  v_lazy text;
BEGIN
  PERFORM 1 FROM {t}_share_names WHERE name = p_name AND kind = p_kind AND NOT queued
    FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM {t}_shares WHERE name = p_name AND kind = p_kind AND owner = p_owner
    AND expires_at > clock_timestamp() RETURNING units, slot INTO v_units, v_slot;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE {t}_share_names SET free = free + v_units, used_at = clock_timestamp(),
    slots = CASE WHEN v_slot IS NULL THEN slots ELSE set_bit(slots, v_slot, 0) END
    WHERE name = p_name AND kind = p_kind
    RETURNING set_config('synchronous_commit', 'off', true) INTO v_lazy;
  RETURN true;
END $$ LANGUAGE plpgsql;

-- Take an owner out of the queue, and give its share back. Return the sum of 1 if it held one, and
-- 2 if others are in the queue or have just come from there.
CREATE OR REPLACE FUNCTION {t}_leave_share(
  p_name text, p_kind text, p_owner text, p_alone boolean
) RETURNS integer AS $$
DECLARE
  v_name {t}_share_names;
  v_share {t}_shares;
  v_queued boolean;
BEGIN
  SELECT * INTO v_name FROM {t}_share_names WHERE name = p_name AND kind = p_kind
    FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  v_queued := v_name.queued;
  DELETE FROM {t}_share_queue WHERE name = p_name AND kind = p_kind AND owner = p_owner;
  DELETE FROM {t}_shares WHERE name = p_name AND kind = p_kind AND owner = p_owner
    RETURNING * INTO v_share;
  v_name.free := v_name.free + coalesce(v_share.units, 0);
  v_name.slots := {t}_mark_slot(v_name.slots, v_share.slot, 0);
  IF v_name.ends_at <= clock_timestamp() THEN
    v_name := {t}_expire_shares(v_name);
  END IF;
  IF v_queued THEN
    v_name := {t}_serve_shares(v_name);
  END IF;
  PERFORM {t}_note_share(v_name), {t}_be_lazy(p_alone);
  RETURN coalesce(v_share.expires_at > clock_timestamp(), false)::integer + 2 * v_queued::integer;
END $$ LANGUAGE plpgsql;

-- Renew shares; return the owners whose shares were still there.
CREATE OR REPLACE FUNCTION {t}_renew_shares(
  p_names text[], p_kinds text[], p_owners text[], p_ttls double precision[]
) RETURNS SETOF text AS $$
DECLARE
  v_now timestamptz;
BEGIN
  PERFORM 1 FROM {t}_share_names WHERE (name, kind) IN (SELECT * FROM unnest(p_names, p_kinds))
    ORDER BY name, kind FOR NO KEY UPDATE;
  v_now := clock_timestamp();
  RETURN QUERY UPDATE {t}_shares s SET ttl = g.ttl, inbox = '',
    expires_at = v_now + g.ttl * interval '1 second'
    FROM unnest(p_names, p_kinds, p_owners, p_ttls) AS g (name, kind, owner, ttl)
    WHERE s.name = g.name AND s.kind = g.kind AND s.owner = g.owner AND s.expires_at > v_now
    RETURNING s.owner;
  UPDATE {t}_share_names n SET ends_at = g.ends_at FROM (
    SELECT name, kind, v_now + min(ttl) * interval '1 second' AS ends_at
    FROM unnest(p_names, p_kinds, p_ttls) AS w (name, kind, ttl) GROUP BY name, kind) g
    WHERE n.name = g.name AND n.kind = g.kind AND n.ends_at > g.ends_at;
END $$ LANGUAGE plpgsql;

-- Take a name from all holders of its shares, of either kind. Return whether there were any.
CREATE OR REPLACE FUNCTION {t}_revoke_shares(p_name text, p_reason text) RETURNS boolean AS $$
DECLARE
  v_kind text;
  v_name {t}_share_names;
  v_share {t}_shares;
  v_revoked boolean := false;
BEGIN
  FOR v_kind IN SELECT kind FROM {t}_share_names WHERE name = p_name ORDER BY kind LOOP
    v_name := {t}_current_share(p_name, v_kind);
    PERFORM 1 FROM {t}_share_names WHERE name = p_name AND kind = v_kind FOR UPDATE;
    FOR v_share IN DELETE FROM {t}_shares WHERE name = p_name AND kind = v_kind AND claimed
      AND expires_at > clock_timestamp() RETURNING *
    LOOP
      v_revoked := true;
      v_name.free := v_name.free + v_share.units;
      v_name.slots := {t}_mark_slot(v_name.slots, v_share.slot, 0);
      INSERT INTO {t}_revoked VALUES (v_share.owner, p_reason,
        v_share.expires_at + interval '{forget} seconds')
        ON CONFLICT (owner) DO UPDATE SET reason = p_reason, until = excluded.until;
    END LOOP;
    IF v_name.queued THEN
      v_name := {t}_serve_shares(v_name);
    END IF;
    PERFORM {t}_note_share(v_name);
  END LOOP;
  RETURN v_revoked;
END $$ LANGUAGE plpgsql;

-- Do for shares what _settle does for locks. Names with free units are settled, too: where owners
-- wait all the same, the first in the queue keeps the units from the others, and may be dead.
CREATE OR REPLACE FUNCTION {t}_settle_shares(p_inbox text)
RETURNS TABLE (r_owner text, r_waiting bigint, r_next double precision) AS $$
DECLARE
  v_one record;
  v_now timestamptz := clock_timestamp();
BEGIN
  FOR v_one IN SELECT DISTINCT n.name, n.kind FROM {t}_share_queue q
    JOIN {t}_share_names n ON n.name = q.name AND n.kind = q.kind
    WHERE q.inbox = p_inbox AND (n.ends_at <= v_now OR n.free > 0) ORDER BY n.name, n.kind
  LOOP
    PERFORM {t}_note_share({t}_current_share(v_one.name, v_one.kind));
  END LOOP;
  RETURN QUERY SELECT CASE WHEN n.name IS NULL OR n.free = n.capacity OR s.owner IS NOT NULL
      THEN q.owner END,
    count(*) FILTER (WHERE NOT q.lapsed) OVER (),
    date_part('epoch', least(min(n.ends_at) OVER (), v_now + interval '1 day') - v_now)
    FROM {t}_share_queue q
    LEFT JOIN {t}_share_names n ON n.name = q.name AND n.kind = q.kind
    LEFT JOIN {t}_shares s ON s.name = q.name AND s.kind = q.kind AND s.owner = q.owner
    WHERE q.inbox = p_inbox ORDER BY 1 LIMIT {tidy};
END $$ LANGUAGE plpgsql;

-- Return a row if a share still holds, and protect the name for as long as the transaction lasts:
-- removing expired shares, and revoking, needs its row FOR UPDATE.
CREATE OR REPLACE FUNCTION {t}_verify_share(p_name text, p_kind text, p_owner text, p_fence bigint)
RETURNS SETOF integer AS $$
BEGIN
  PERFORM 1 FROM {t}_share_names WHERE name = p_name AND kind = p_kind FOR KEY SHARE;
  RETURN QUERY SELECT 1 FROM {t}_shares WHERE name = p_name AND kind = p_kind AND owner = p_owner
    AND fence = p_fence AND expires_at > clock_timestamp();
END $$ LANGUAGE plpgsql;

-- Remove rows that were not used for a while, and memos that have ended. Shares that ended
-- unnoticed go first; their names go the next time. The floor is raised before rows go.
CREATE OR REPLACE FUNCTION {t}_tidy_shares() RETURNS void AS $$
DECLARE
  v_one record;
  v_old timestamptz := clock_timestamp() - interval '{unused} seconds';
BEGIN
  IF NOT pg_try_advisory_xact_lock({space}, hashtext('{t}_floor')) THEN
    RETURN;
  END IF;
  FOR v_one IN SELECT name, kind FROM {t}_share_names
    WHERE ends_at < v_old OR (queued AND used_at < v_old) LIMIT {tidy} FOR UPDATE SKIP LOCKED
  LOOP
    PERFORM {t}_note_share({t}_current_share(v_one.name, v_one.kind));
  END LOOP;
  FOR v_one IN SELECT name, kind, fence FROM {t}_share_names
    WHERE free = capacity AND NOT queued AND used_at < v_old LIMIT {tidy} FOR UPDATE SKIP LOCKED
  LOOP
    IF v_one.fence > (SELECT last_value FROM {t}_floor) THEN
      PERFORM setval('{t}_floor', v_one.fence);
    END IF;
    DELETE FROM {t}_share_names WHERE name = v_one.name AND kind = v_one.kind;
  END LOOP;
  DELETE FROM {t}_memos WHERE name IN (
    SELECT name FROM {t}_memos WHERE until < v_old LIMIT {tidy} FOR UPDATE SKIP LOCKED);
END $$ LANGUAGE plpgsql;
