-- Take several locks at once: all of them, or none. Return a row for each, in the order of their
-- names; or one row without a fence, for the first lock that is held; or no row where acquire has
-- to decide: a lease has ended, others wait, or a row is just being changed.
--
-- While it has rows locked, this waits for no transaction but one that is inserting a row for the
-- same name: so one that locks rows in another order, one after another, causes no deadlock.
-- Such a wait may be long, and rows may be removed meanwhile: so the floor that the new rows began
-- with may be too low, and is read once more when all rows are locked.
CREATE OR REPLACE FUNCTION {t}_take_together(
  p_names text[], p_owners text[], p_ttls double precision[], p_meta text, p_alone boolean
) RETURNS TABLE (r_name text, r_fence bigint, r_holder text) AS $$
DECLARE
  v_row {t}_locks;
  v_locked integer := 0;
  v_free integer := 0;
BEGIN
  INSERT INTO {t}_locks (name, owner, fence, ttl, since, expires_at, claimed, queued, meta)
    SELECT wanted, '', last_value, 0, clock_timestamp(), clock_timestamp(), false, false, ''
    FROM {t}_floor, unnest(p_names) wanted ORDER BY wanted COLLATE "C" ON CONFLICT DO NOTHING;
  FOR v_row IN SELECT * FROM {t}_locks WHERE name = ANY (p_names) ORDER BY name
    FOR NO KEY UPDATE SKIP LOCKED
  LOOP
    v_locked := v_locked + 1;
    IF v_row.owner = '' AND NOT v_row.queued THEN
      v_free := v_free + 1;
    ELSIF r_name IS NULL AND v_row.expires_at > clock_timestamp() AND v_row.owner <> '' THEN
      r_name := v_row.name;
      r_holder := v_row.meta;
    END IF;
  END LOOP;
  IF v_free = cardinality(p_names) THEN
    RETURN QUERY WITH taken AS (
      UPDATE {t}_locks l SET owner = w.owner, ttl = w.ttl,
        fence = greatest(l.fence + 1, {us}, (SELECT last_value + 1 FROM {t}_floor)),
        since = clock_timestamp(), claimed = true, meta = p_meta, inbox = '',
        expires_at = clock_timestamp() + w.ttl * interval '1 second'
      FROM unnest(p_names, p_owners, p_ttls) AS w (name, owner, ttl) WHERE l.name = w.name
      RETURNING l.name, l.fence)
      SELECT name, fence, '' FROM taken ORDER BY name COLLATE "C";
    RETURN;
  END IF;
  PERFORM {t}_be_lazy(p_alone);
  IF r_name IS NOT NULL AND v_locked = cardinality(p_names) THEN
    RETURN NEXT;
  END IF;
END $$ LANGUAGE plpgsql;
