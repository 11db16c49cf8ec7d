-- The packets that remove what nobody uses, in mode=lease. {t} is the prefix of the names of the
-- tables, {now} the server's clock. %(n)s stands for the literal of a row's key; {skip} is SKIP
-- LOCKED where the server has it.
-- What is unused is read without a lock: a DELETE with a condition waits for every row on its way
-- that a transaction has locked. Each row is then removed by its key, unless it is locked.

-- part: over
-- Neither the hold of a row of {t}_locks nor what extended it has lasted until lately.
{t}_locks.expires_at<{now}-{unused} AND NOT EXISTS (
  SELECT 1 FROM {t}_renewals r WHERE r.owner={t}_locks.owner AND r.expires_at>={now}-{unused})

-- part: unused_lock
{t}_locks.queued=0 AND {over}

-- part: unused_name
{t}_share_names.free={t}_share_names.capacity AND {t}_share_names.queued=0
  AND {t}_share_names.used_at<{now}-{unused}

-- part: raised
-- A row is removed only if an earlier clean-up has raised the fence above it: that waits for every
-- statement that has read the old one.
fence<=(SELECT f.fence FROM {t}_fence f)

-- packet: unused_locks
SELECT name FROM {t}_locks WHERE {unused_lock} AND {t}_locks.{raised} LIMIT {most};
SELECT owner FROM {t}_renewals WHERE expires_at<{now}-{unused} LIMIT {most};
SELECT owner FROM {t}_revoked WHERE until<{now} LIMIT {most};
SELECT COALESCE(MAX(fence),0) FROM {t}_locks WHERE {unused_lock};
SELECT name FROM {t}_locks WHERE queued>0 AND {over} UNION
  SELECT name FROM {t}_waiters WHERE seen_at<{now}-{forget} LIMIT {settle_most}

-- packet: unused_shares
SELECT name FROM {t}_share_names WHERE {unused_name} AND {t}_share_names.{raised} LIMIT {most};
SELECT owner FROM {t}_renewals WHERE expires_at<{now}-{unused} LIMIT {most};
SELECT name FROM {t}_memos GROUP BY name HAVING MAX(until)<{now}-{unused} LIMIT {most};
SELECT name FROM {t}_changes WHERE number<{now}-{unused} LIMIT {most};
SELECT COALESCE(MAX(fence),0) FROM {t}_share_names WHERE {unused_name};
SELECT name FROM {t}_share_names
  WHERE ends_at<{now}-{unused} OR (queued=1 AND used_at<{now}-{unused}) UNION
  SELECT name FROM {t}_share_queue WHERE seen_at<{now}-{forget} LIMIT {settle_most}

-- packet: remove_lock
SET @name=NULL;
SELECT name INTO @name FROM {t}_locks WHERE name=%(n)s AND {unused_lock} AND {t}_locks.{raised}
  FOR UPDATE {skip};
DELETE FROM {t}_locks WHERE name=@name

-- packet: remove_name
SET @name=NULL;
SELECT name INTO @name FROM {t}_share_names
  WHERE name=%(n)s AND {unused_name} AND {t}_share_names.{raised} FOR UPDATE {skip};
DELETE FROM {t}_share_names WHERE name=@name

-- packet: remove_renewal
SET @owner=NULL;
SELECT owner INTO @owner FROM {t}_renewals WHERE owner=%(n)s AND expires_at<{now}-{unused}
  FOR UPDATE {skip};
DELETE FROM {t}_renewals WHERE owner=@owner

-- packet: remove_reason
DELETE FROM {t}_revoked WHERE owner=%(n)s AND until<{now}

-- packet: remove_memos
DELETE FROM {t}_memos WHERE name=%(n)s AND until<{now}-{unused}

-- packet: remove_change
DELETE FROM {t}_changes WHERE name=%(n)s AND number<{now}-{unused}

-- packet: raise_fence
-- The last reply has the fence, which is lower than this one if its row was locked.
START TRANSACTION;
SET @id=NULL;
SELECT id INTO @id FROM {t}_fence WHERE id=1 FOR UPDATE {skip};
UPDATE {t}_fence SET fence=GREATEST(fence,%(fence)s) WHERE id=@id;
COMMIT;
SELECT fence FROM {t}_fence

-- packet: is_locked
-- The replies have as many rows, unless a transaction has locked the row of the name.
SELECT 1 FROM {t}_locks WHERE name=%(n)s;
SELECT 1 FROM {t}_locks WHERE name=%(n)s FOR UPDATE {skip}
