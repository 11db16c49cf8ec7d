-- Stop waiting through one client: leave the queue if the entry there is that client's, and give
-- back what was handed to it and never claimed. The owner may have sent a request through another
-- client meanwhile: its entry then has the inbox of that client, and what it holds has none. The
-- kind is '' for a mutex.
CREATE OR REPLACE FUNCTION {t}_leave_queue(
  p_name text, p_kind text, p_owner text, p_inbox text, p_alone boolean
) RETURNS void AS $$
BEGIN
  IF p_kind = '' THEN
    PERFORM 1 FROM {t}_locks WHERE name = p_name FOR NO KEY UPDATE;
    IF EXISTS (SELECT 1 FROM {t}_locks
        WHERE name = p_name AND owner = p_owner AND inbox = p_inbox)
      OR EXISTS (SELECT 1 FROM {t}_waiters WHERE owner = p_owner AND inbox = p_inbox) THEN
      PERFORM {t}_leave(p_name, p_owner, p_alone);
    END IF;
    RETURN;
  END IF;
  PERFORM 1 FROM {t}_share_names WHERE name = p_name AND kind = p_kind FOR NO KEY UPDATE;
  IF EXISTS (SELECT 1 FROM {t}_shares
      WHERE name = p_name AND kind = p_kind AND owner = p_owner AND inbox = p_inbox)
    OR EXISTS (SELECT 1 FROM {t}_share_queue
      WHERE name = p_name AND kind = p_kind AND owner = p_owner AND inbox = p_inbox) THEN
    PERFORM {t}_leave_share(p_name, p_kind, p_owner, p_alone);
  END IF;
END $$ LANGUAGE plpgsql;
