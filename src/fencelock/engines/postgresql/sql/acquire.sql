-- The functions that clients call to join a queue, to acquire, and to leave.
-- schema.sql argues why a joiner and a release need not wait for each other.

-- Join a queue in which others wait, without locking the name's row: a release would have to wait
-- for that, or this for the release's commit to reach the disk. Return for how many seconds the
-- lock is held, how many wait before this owner, and the holder's meta. Return NULL if it is not
-- certain that the holder of the lock will see the entry: the client then calls acquire. p_again is
-- not used: it stays because a function that an earlier release has created is called with it, too.
CREATE OR REPLACE FUNCTION {t}_join(
  p_name text, p_owner text, p_ttl double precision, p_meta text, p_inbox text, p_again boolean
) RETURNS text AS $$
DECLARE
  v_now timestamptz := clock_timestamp();
  v_lazy text := set_config('synchronous_commit', 'off', true);
  v_place bigint;
  v_busy text;
BEGIN
  IF NOT pg_try_advisory_xact_lock_shared({queues}, hashtext(p_name)) THEN
    RETURN NULL;
  END IF;
  -- The owner keeps its position if it joins again, perhaps through another client.
  INSERT INTO {t}_waiters (owner, name, ttl, since, seen_at, lapsed, inbox, meta)
    VALUES (p_owner, p_name, p_ttl, v_now, v_now, false, p_inbox, p_meta)
    ON CONFLICT (owner) DO UPDATE SET seen_at = v_now, lapsed = false, inbox = p_inbox
    RETURNING place INTO v_place;
  -- Only what is read now counts: a release that clears queued has done so before, or waits for us.
  SELECT date_part('epoch', l.expires_at - v_now) || ' ' || (SELECT count(*) FROM {t}_waiters w
      WHERE w.name = p_name AND w.place >= l.turn AND w.place < v_place) || ' ' || l.meta
    INTO v_busy FROM {t}_locks l
    WHERE name = p_name AND queued AND owner <> '' AND owner <> p_owner AND expires_at > v_now;
  IF NOT FOUND THEN  -- if the owner was handed the lock, its entry was deleted: delete this one
    DELETE FROM {t}_waiters w USING {t}_locks l
      WHERE w.owner = p_owner AND l.name = p_name AND l.owner = p_owner;
  END IF;
  RETURN v_busy;
END $$ LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {t}_acquire(
  p_name text, p_owner text, p_ttl double precision, p_meta text, p_queue boolean, p_inbox text,
  p_alone boolean,
  OUT r_fence bigint, OUT r_remaining double precision, OUT r_place bigint, OUT r_holder text
) AS $$
DECLARE
  v_row {t}_locks := {t}_current(p_name);
  v_now timestamptz := clock_timestamp();
BEGIN
  r_fence := 0;
  IF v_row.owner = '' OR (v_row.owner = p_owner AND v_row.expires_at > v_now) THEN
    DELETE FROM {t}_waiters WHERE owner = p_owner;
    UPDATE {t}_locks SET ttl = p_ttl, claimed = true, meta = p_meta, owner = p_owner, inbox = '',
      expires_at = v_now + p_ttl * interval '1 second',
      fence = CASE v_row.owner WHEN p_owner THEN fence ELSE greatest(fence + 1, {us}) END,
      since = CASE v_row.owner WHEN p_owner THEN since ELSE v_now END,
      queued = v_row.queued AND (v_row.owner = p_owner OR EXISTS (  -- others may be joining it
        SELECT 1 FROM {t}_waiters WHERE name = p_name AND place >= v_row.turn))
      WHERE name = p_name RETURNING fence INTO r_fence;
    RETURN;
  END IF;
  PERFORM {t}_be_lazy(p_alone);
  IF p_queue THEN
    INSERT INTO {t}_waiters (owner, name, ttl, since, seen_at, lapsed, inbox, meta)
      VALUES (p_owner, p_name, p_ttl, v_now, v_now, false, p_inbox, p_meta)
      ON CONFLICT (owner) DO UPDATE SET seen_at = v_now, lapsed = false, inbox = p_inbox;
    IF NOT v_row.queued THEN
      UPDATE {t}_locks SET queued = true WHERE name = p_name;
    END IF;
  END IF;
  SELECT count(*) INTO r_place FROM {t}_waiters WHERE name = p_name AND place >= v_row.turn AND
    place < coalesce((SELECT place FROM {t}_waiters WHERE owner = p_owner), 9223372036854775807);
  r_remaining := extract(epoch FROM v_row.expires_at - v_now);
  r_holder := v_row.meta;
END $$ LANGUAGE plpgsql;

-- Take an owner out of the queue, and release the lock if the owner has it. Return the sum of 1 if
-- it held the lock, and 2 if others are in the queue or the new owner has just come from there.
CREATE OR REPLACE FUNCTION {t}_leave(p_name text, p_owner text, p_alone boolean)
RETURNS integer AS $$
DECLARE
  v_row {t}_locks;
  v_heir record;
  v_fence bigint;
  v_turn bigint;
  v_word text;
  v_held boolean;
  v_queued boolean;
  v_now timestamptz := clock_timestamp();
  v_old timestamptz := v_now - interval '{forget} seconds';
BEGIN
  -- Where others wait, the first of them gets the lock; the code below handles all unusual cases.
  SELECT owner, ttl, meta, inbox, place, seen_at INTO v_heir FROM {t}_waiters WHERE name = p_name
    AND place >= (SELECT turn FROM {t}_locks WHERE name = p_name)
    AND (NOT lapsed OR seen_at < v_old) ORDER BY place LIMIT 1;
  IF v_heir.seen_at >= v_old AND v_heir.ttl >= {short} AND v_heir.owner <> p_owner
      AND v_heir.inbox <> ''
      AND NOT pg_try_advisory_xact_lock_shared({space}, hashtext(v_heir.inbox)) THEN
    UPDATE {t}_locks SET owner = v_heir.owner, fence = greatest(fence + 1, {us}),
      ttl = v_heir.ttl, since = v_now, claimed = true, meta = v_heir.meta, inbox = v_heir.inbox,
      expires_at = v_now + v_heir.ttl * interval '1 second'
      WHERE name = p_name AND owner = p_owner AND claimed AND expires_at > v_now
      RETURNING fence, turn INTO v_fence, v_turn;
    IF FOUND THEN
      DELETE FROM {t}_waiters WHERE owner = v_heir.owner RETURNING pg_notify(inbox, owner || ' ' ||
        v_fence || ' ' || date_part('epoch', v_now - since)) INTO v_word;
      IF NOT FOUND THEN  -- that waiter left while we waited for the row, now locked by us
        PERFORM {t}_hand_on(p_name);
      ELSIF v_heir.place > v_turn + {skip} THEN
        PERFORM {t}_skip(p_name, v_turn, v_heir.place);
      END IF;
      RETURN 3;
    END IF;
  END IF;
  SELECT * INTO v_row FROM {t}_locks WHERE name = p_name FOR NO KEY UPDATE;
  v_held := FOUND AND v_row.owner = p_owner;
  v_queued := FOUND AND v_row.queued;
  DELETE FROM {t}_waiters WHERE owner = p_owner;
  IF v_held THEN
    v_held := v_row.expires_at > clock_timestamp();
    v_row := {t}_hand_on(p_name);
    v_queued := v_row.queued OR v_row.owner <> '';
  END IF;
  PERFORM {t}_be_lazy(p_alone);
  RETURN v_held::integer + 2 * v_queued::integer;
END $$ LANGUAGE plpgsql;
