-- The packets of mode=lease. {t} is the prefix of the names of the tables, {now} the server's
-- clock; lease_sql.py has the other values, the order of the steps, and why it is safe.
-- %(n)s and %(o)s stand for the literals of a name and an owner.

-- part: end
GREATEST(l.expires_at,COALESCE(r.expires_at,0))

-- part: held
{t}_locks l LEFT JOIN {t}_renewals r ON r.owner=l.owner

-- part: stirs
-- Whether a waiter has to retry.
l.name IS NULL OR l.owner='' OR (l.owner=w.owner AND l.claimed=0) OR {end}<={now}

-- part: columns
(name,owner,fence,ttl,since,expires_at,claimed,queued,meta)

-- part: place
{t}_waiters (owner,name,inbox,ttl,since,seen_at,lapsed,meta)
  SELECT %(o)s,%(n)s,%(inbox)s,%(ttl)s,{now},{now},0,%(meta)s FROM {t}_locks

-- part: new_fence
GREATEST({now},(SELECT fence FROM {t}_fence)+1)

-- part: free
owner='' AND queued=0

-- part: ours
owner=VALUES(owner) AND expires_at>VALUES(since)

-- packet: take
-- Assignments are evaluated from left to right and see the earlier ones: the owner comes last.
INSERT INTO {t}_locks {columns}
  VALUES(%(n)s,%(o)s,LAST_INSERT_ID({new_fence}),%(ttl)s,{now},{now}+%(ttl)s,1,0,%(meta)s)
  ON DUPLICATE KEY UPDATE
  fence=IF({free},LAST_INSERT_ID(GREATEST(fence+1,VALUES(since))),
    IF({ours},LAST_INSERT_ID(fence),fence+LAST_INSERT_ID(0))),
  ttl=IF({free},VALUES(ttl),ttl),
  since=IF({free},VALUES(since),since),
  meta=IF({free},VALUES(meta),meta),
  claimed=IF({free} OR {ours},1,claimed),
  expires_at=IF({free} OR {ours},VALUES(expires_at),expires_at),
  owner=IF({free},VALUES(owner),owner)

-- packet: take_known
UPDATE {t}_locks SET since={now},fence=LAST_INSERT_ID(GREATEST(fence+1,since)),
  expires_at=since+%(ttl)s,owner=%(o)s,ttl=%(ttl)s,claimed=1,meta=%(meta)s
  WHERE name=%(n)s AND owner='' AND queued=0

-- packet: release
UPDATE {t}_locks SET owner='',expires_at={now}
  WHERE name=%(n)s AND owner=%(o)s AND queued=0 AND claimed=1 AND expires_at>{now}

-- part: row
-- Lock the row of the name; insert it if there is none.
INSERT INTO {t}_locks {columns} VALUES(%(n)s,'',{new_fence},0,0,{now},1,0,'')
  ON DUPLICATE KEY UPDATE name=VALUES(name)

-- part: settle
-- Free a lock whose lease has ended. A hand-over that was not claimed shows that its client does
-- not listen: all its waiters are passed over at once, and those whose client has no session.
UPDATE {t}_locks l JOIN {t}_waiters w ON w.name=l.name
  LEFT JOIN {t}_waiters h ON h.owner=l.owner SET w.lapsed=1
  WHERE l.name=%(n)s AND l.claimed=0 AND l.expires_at<={now}
  AND (w.inbox<=>h.inbox OR IS_USED_LOCK(CONCAT('{wakeup_lock}',w.inbox)) IS NULL);
UPDATE {held} SET l.owner='',l.claimed=1
  WHERE l.name=%(n)s AND l.owner<>'' AND {end}<={now}

-- part: hand_on
DELETE FROM {t}_waiters WHERE name=%(n)s AND seen_at<{now}-{forget};
UPDATE {t}_locks l JOIN (
    SELECT owner,ttl,meta FROM {t}_waiters WHERE name=%(n)s AND lapsed=0 ORDER BY place LIMIT 1
  ) w SET l.fence=GREATEST(l.fence+1,{now}),l.owner=w.owner,l.ttl=w.ttl,l.since={now},
  l.claimed=0,l.meta=w.meta,l.expires_at={now}+LEAST({claim_us},w.ttl)
  WHERE l.name=%(n)s AND l.owner=''

-- part: waits
EXISTS (SELECT 1 FROM {t}_waiters WHERE name=%(n)s)

-- part: whom
SET @inbox=NULL,@owner=NULL;
SELECT w.inbox,w.owner INTO @inbox,@owner FROM {t}_locks l JOIN {t}_waiters w ON w.owner=l.owner
  WHERE l.name=%(n)s AND l.claimed=0

-- part: wake
-- The session that has the lock of an inbox is its listener. An error if no session has it.
KILL QUERY IS_USED_LOCK(CONCAT('{wakeup_lock}',@inbox))

-- part: end_of_turn
UPDATE {t}_locks SET claimed=1,expires_at={now}+%(ttl)s WHERE name=%(n)s AND owner=%(o)s;
DELETE w FROM {t}_waiters w JOIN {t}_locks l ON l.owner=w.owner
  WHERE w.owner=%(o)s AND l.name=%(n)s;
UPDATE {t}_locks SET queued=1 WHERE name=%(n)s AND queued=0 AND {waits};
{whom};
SELECT l.owner=%(o)s,l.fence,{end}-{now},l.meta,
  (SELECT COUNT(*) FROM {t}_waiters a WHERE a.name=%(n)s AND a.owner<>l.owner
    AND a.place<COALESCE((SELECT b.place FROM {t}_waiters b WHERE b.owner=%(o)s),1<<62)),
  @owner FROM {held} WHERE l.name=%(n)s;
COMMIT;
{wake}

-- packet: queue
START TRANSACTION;
{row};
{settle};
INSERT INTO {place} WHERE name=%(n)s AND owner<>%(o)s
  ON DUPLICATE KEY UPDATE seen_at=VALUES(seen_at),lapsed=0,inbox=VALUES(inbox);
{hand_on};
{end_of_turn}

-- packet: take_turn
START TRANSACTION;
{row};
{settle};
{hand_on};
UPDATE {t}_locks SET fence=GREATEST(fence+1,{now}),owner=%(o)s,ttl=%(ttl)s,since={now},
  claimed=0,expires_at={now}+%(ttl)s,meta=%(meta)s WHERE name=%(n)s AND owner='';
{end_of_turn}

-- packet: claim
START TRANSACTION;
UPDATE {t}_locks SET claimed=1,expires_at={now}+%(ttl)s,fence=LAST_INSERT_ID(fence)
  WHERE name=%(n)s AND owner=%(o)s AND claimed=0 AND expires_at>{now};
DELETE FROM {t}_waiters WHERE owner=%(o)s AND ROW_COUNT()=1;
COMMIT

-- part: held_by_another
name=%(n)s AND owner<>'' AND owner<>%(o)s AND expires_at>{now}

-- part: join
-- The owner keeps its position if it joins again, perhaps through another client.
INSERT INTO {place} WHERE {held_by_another} AND queued>0
  ON DUPLICATE KEY UPDATE seen_at=VALUES(seen_at),lapsed=0,inbox=VALUES(inbox),
  place=LAST_INSERT_ID(place)

-- part: ahead
SELECT (SELECT COUNT(*) FROM {t}_waiters WHERE name=%(n)s AND place<LAST_INSERT_ID())
  FROM {t}_locks WHERE name=%(n)s AND owner<>'' AND queued>0

-- packet: join_flagged
{join};
{ahead}

-- packet: join_queue
START TRANSACTION;
UPDATE {t}_locks SET queued=1 WHERE {held_by_another};
{join};
COMMIT;
{ahead}

-- part: hand_to_next
-- This selects a row for every name that exists, so no older value stays in the variables.
START TRANSACTION;
SELECT w.owner,w.inbox,w.ttl,w.meta INTO @owner,@inbox,@ttl,@meta
  FROM {t}_locks l LEFT JOIN {t}_waiters w ON w.lapsed=0 AND w.owner=(
    SELECT f.owner FROM {t}_waiters f FORCE INDEX (by_name) WHERE f.name=%(n)s
    AND f.owner<>%(o)s AND f.lapsed=0 AND f.seen_at>={now}-{forget} ORDER BY f.place LIMIT 1
  ) WHERE l.name=%(n)s FOR UPDATE;
UPDATE {t}_locks SET fence=GREATEST(fence+1,{now}),owner=@owner,ttl=@ttl,since={now},
  claimed=0,meta=@meta,expires_at={now}+LEAST({claim_us},@ttl)
  WHERE name=%(n)s AND owner=%(o)s AND claimed=1 AND expires_at>{now} AND @owner IS NOT NULL

-- packet: hand_over
{hand_to_next};
COMMIT;
{wake}

-- packet: hand_over_and_tell
{hand_to_next};
SELECT @owner;
COMMIT;
{wake}

-- packet: leave
START TRANSACTION;
SELECT l.owner=%(o)s AND {end}>{now} FROM {held} WHERE l.name=%(n)s FOR UPDATE;
DELETE FROM {t}_waiters WHERE owner=%(o)s;
DELETE FROM {t}_renewals WHERE owner=%(o)s;
UPDATE {t}_locks SET owner='',claimed=1,expires_at={now} WHERE name=%(n)s AND owner=%(o)s;
{settle};
{hand_on};
{whom};
SELECT @owner,(SELECT owner='' AND queued>0 FROM {t}_locks WHERE name=%(n)s);
COMMIT;
{wake}

-- packet: decline
START TRANSACTION;
SET @name=NULL;
SELECT name INTO @name FROM {t}_waiters WHERE owner=%(o)s;
SELECT 1 FROM {t}_locks WHERE name=%(n)s FOR UPDATE;
DELETE FROM {t}_waiters WHERE owner=%(o)s;
UPDATE {t}_locks SET owner='',claimed=1,expires_at={now}
  WHERE name=%(n)s AND owner=%(o)s AND claimed=0;
{settle};
{hand_on};
{whom};
SELECT @owner;
COMMIT;
{wake}

-- packet: lower_flag
-- The row is locked first, and the queue is read after that.
START TRANSACTION;
SELECT 1 FROM {t}_locks WHERE name=%(n)s FOR UPDATE;
{hand_on};
UPDATE {t}_locks SET queued={waits} WHERE name=%(n)s AND owner='' AND queued>0;
{whom};
SELECT @owner;
COMMIT;
{wake}

-- packet: listener_setup
SET SESSION group_concat_max_len=1000000;
DO GET_LOCK('{wakeup_lock}%(inbox)s',0)

-- packet: listen
-- Reading and sleeping are one statement: a wake-up that comes after the read ends the sleep.
SELECT c.calls,IF(c.calls IS NULL,
    SLEEP(LEAST(%(nap)s,GREATEST(0.002,COALESCE((c.soonest-{now})/1000000,%(nap)s)))),0)
  FROM (SELECT GROUP_CONCAT(n.owner) AS calls,MIN(n.soonest) AS soonest FROM (
    SELECT SUBSTRING_INDEX(GROUP_CONCAT(IF({stirs},w.owner,NULL)
      ORDER BY COALESCE(l.owner,'')<>w.owner,w.place),',',1) AS owner,MIN({end}) AS soonest
    FROM {t}_waiters w LEFT JOIN {t}_locks l ON l.name=w.name
    LEFT JOIN {t}_renewals r ON r.owner=l.owner WHERE w.inbox=%(inbox)s GROUP BY w.name
  ) n) c

-- packet: listen_for
SELECT IF(w.owner IS NOT NULL AND ({stirs}),w.owner,NULL),
  IF(w.owner IS NOT NULL AND ({stirs}),0,
    SLEEP(LEAST(%(nap)s,GREATEST(0.002,COALESCE(({end}-{now})/1000000,%(nap)s)))))
  FROM (SELECT 1) one LEFT JOIN {t}_waiters w ON w.owner=%(o)s
  LEFT JOIN {t}_locks l ON l.name=w.name LEFT JOIN {t}_renewals r ON r.owner=l.owner

-- packet: heartbeat
UPDATE {t}_waiters SET seen_at={now},lapsed=0 WHERE inbox=%(inbox)s

-- packet: heartbeat_of
UPDATE {t}_waiters SET seen_at={now},lapsed=0 WHERE owner=%(o)s

-- part: renewed
-- The names are compared by themselves, too, so that the index is used.
FROM {held} WHERE l.name IN (%(names)s) AND (l.name,l.owner) IN (%(pairs)s) AND {end}>{now}

-- packet: renew
INSERT INTO {t}_renewals (owner,ttl,expires_at)
  SELECT l.owner,%(ttl)s,{now}+%(ttl)s {renewed} LOCK IN SHARE MODE
  ON DUPLICATE KEY UPDATE ttl=VALUES(ttl),expires_at=VALUES(expires_at);
SELECT l.owner,NULL {renewed} UNION ALL
  SELECT owner,reason FROM {t}_revoked WHERE owner IN (%(owners)s)

-- packet: end_in
UPDATE {held} SET l.expires_at={now}+%(rest)s,r.expires_at={now}+%(rest)s
  WHERE l.name=%(n)s AND l.owner=%(o)s AND l.claimed=1 AND {end}>{now}

-- packet: revoke
START TRANSACTION;
SET @gone=NULL;
{row};
{settle};
SELECT owner INTO @gone FROM {t}_locks WHERE name=%(n)s AND claimed=1 AND owner<>'';
INSERT INTO {t}_revoked
  SELECT owner,%(reason)s,expires_at+ttl+{forget} FROM {t}_locks WHERE name=%(n)s AND owner=@gone
  ON DUPLICATE KEY UPDATE reason=VALUES(reason);
DELETE FROM {t}_renewals WHERE owner=@gone;
UPDATE {t}_locks SET owner='',expires_at={now} WHERE name=%(n)s AND owner=@gone;
{hand_on};
{whom};
SELECT @gone IS NOT NULL,@owner;
COMMIT;
{wake}

-- packet: verification
-- Its parameters are filled in by the driver.
SELECT l.fence FROM {t}_locks l WHERE l.name=%s AND l.owner=%s AND l.claimed=1
  AND (l.expires_at>{now} OR EXISTS (
    SELECT 1 FROM {t}_renewals r WHERE r.owner=%s AND r.expires_at>{now}
  )) LOCK IN SHARE MODE

-- part: holders
SELECT l.name,l.fence,COALESCE(r.ttl,l.ttl),{now}-l.since,{end}-{now},l.meta FROM {held}

-- part: in_order
AND l.owner<>'' AND l.claimed=1 AND {end}>{now} ORDER BY l.name

-- packet: state
{holders} WHERE l.name=%(n)s {in_order};
SELECT {now}-w.since,w.meta FROM {t}_waiters w LEFT JOIN {t}_locks l ON l.name=w.name
  WHERE w.name=%(n)s AND w.owner<>COALESCE(l.owner,'') AND w.seen_at>={now}-{forget}
  ORDER BY w.place

-- packet: scan
{holders} WHERE LEFT(l.name,%(size)s)=%(n)s {in_order}
