-- The functions that run now and then: revoke, settle leases that have ended, and tidy up.

CREATE OR REPLACE FUNCTION {t}_revoke(p_name text, p_reason text) RETURNS boolean AS $$
DECLARE
  v_row {t}_locks := {t}_current(p_name);
BEGIN
  IF v_row.owner = '' OR NOT v_row.claimed OR v_row.expires_at <= clock_timestamp() THEN
    RETURN false;
  END IF;
  PERFORM 1 FROM {t}_locks WHERE name = p_name FOR UPDATE;
  DELETE FROM {t}_revoked WHERE until < clock_timestamp();
  INSERT INTO {t}_revoked VALUES (v_row.owner, p_reason,
    v_row.expires_at + interval '{forget} seconds')
    ON CONFLICT (owner) DO UPDATE SET reason = p_reason, until = excluded.until;
  PERFORM {t}_hand_on(p_name);
  RETURN true;
END $$ LANGUAGE plpgsql;

-- Hand on the locks that the waiters of an inbox wait for and whose leases have ended. Return which
-- waiters to wake, how many wait and are not passed over, and in how many seconds the next of those
-- leases ends.
CREATE OR REPLACE FUNCTION {t}_settle(p_inbox text)
RETURNS TABLE (r_owner text, r_waiting bigint, r_next double precision) AS $$
DECLARE
  v_name text;
BEGIN
  FOR v_name IN SELECT DISTINCT l.name FROM {t}_waiters w JOIN {t}_locks l ON l.name = w.name
    WHERE w.inbox = p_inbox AND l.expires_at <= clock_timestamp() ORDER BY l.name
  LOOP
    PERFORM {t}_current(v_name);
  END LOOP;
  RETURN QUERY SELECT CASE WHEN l.owner IN ('', w.owner) OR l.name IS NULL THEN w.owner END,
    count(*) FILTER (WHERE NOT w.lapsed) OVER (),
    extract(epoch FROM min(l.expires_at) OVER () - clock_timestamp())::double precision
    FROM {t}_waiters w LEFT JOIN {t}_locks l ON l.name = w.name WHERE w.inbox = p_inbox
    ORDER BY 1 LIMIT {tidy};
END $$ LANGUAGE plpgsql;

-- Remove rows that were not used for a while; the floor is raised before they go.
CREATE OR REPLACE FUNCTION {t}_tidy() RETURNS void AS $$
DECLARE
  v_names text[];
  v_highest bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock({space}, hashtext('{t}_floor')) THEN
    RETURN;
  END IF;
  SELECT array_agg(name), max(fence) INTO v_names, v_highest FROM (
    SELECT name, fence FROM {t}_locks l
    WHERE expires_at < clock_timestamp() - interval '{unused} seconds' AND (NOT queued
      OR NOT EXISTS (SELECT 1 FROM {t}_waiters w WHERE w.name = l.name))
    LIMIT {tidy} FOR UPDATE OF l SKIP LOCKED) unused;
  IF v_highest > (SELECT last_value FROM {t}_floor) THEN
    PERFORM setval('{t}_floor', v_highest);
  END IF;
  DELETE FROM {t}_locks WHERE name = ANY (v_names);
  DELETE FROM {t}_revoked WHERE until < clock_timestamp();
END $$ LANGUAGE plpgsql;

-- Remove the rows of holders whose leases ended a while ago.
CREATE OR REPLACE FUNCTION {t}_sweep() RETURNS void AS $$
  DELETE FROM {t}_holders WHERE expires_at < clock_timestamp() - interval '{unused} seconds'
$$ LANGUAGE sql;
