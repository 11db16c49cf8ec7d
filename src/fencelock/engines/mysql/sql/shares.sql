-- The packets of semaphores and read/write locks, in mode=lease. {t} is the prefix of the names of
-- the tables, {now} the server's clock; share_sql.py has the other values, and why it is safe.
-- %(n)s and %(o)s stand for the literals of a name, with the letter of its kind, and of an owner.

-- part: end
GREATEST(s.expires_at,COALESCE(r.expires_at,0))

-- part: held
{t}_shares s LEFT JOIN {t}_renewals r ON r.owner=s.owner

-- part: columns
(name,owner,units,slot,fence,ttl,since,expires_at,claimed,meta)

-- part: lowest_slot
-- The lowest free slot, for the row n of a name.
LOCATE('0',CONCAT(n.slots,'0'))-1

-- part: given_slot
LAST_INSERT_ID((SELECT given FROM {t}_share_names WHERE name=%(n)s)+1)-1

-- packet: take
-- Assignments are evaluated from left to right and see the earlier ones. The insert ids are the
-- fence, and the slot + 1. The table refuses a row without an owner, and a second one of the same
-- owner: then nothing was taken.
START TRANSACTION;
UPDATE {t}_share_names n SET n.fence=LAST_INSERT_ID(GREATEST(n.fence+1,{now})),n.given=%(slot)s,
  n.slots=IF(n.given<LENGTH(n.slots),INSERT(n.slots,n.given+1,1,'1'),
    CONCAT(n.slots,IF(n.given IS NULL,'','1'))),n.free=n.free-%(units)s,
  n.ends_at=LEAST(n.ends_at,{now}+%(ttl)s),n.used_at={now}
  WHERE n.name=%(n)s AND n.queued=0 AND n.capacity=%(limit)s AND n.free>=%(units)s
  AND n.ends_at>{now};
INSERT INTO {t}_shares (owner,fence,slot,name,units,ttl,since,expires_at,claimed,meta)
  VALUES(IF(ROW_COUNT()=1,%(o)s,NULL),LAST_INSERT_ID(),%(given)s,%(n)s,%(units)s,%(ttl)s,{now},
  {now}+%(ttl)s,1,%(meta)s);
COMMIT

-- packet: give_back
-- The only packet that locks the row of the share first, and that of the name only if the share was
-- held. If somebody waits, the units stay taken until the name is settled.
START TRANSACTION;
DELETE FROM {t}_shares WHERE name=%(n)s AND owner=%(o)s AND claimed=1 AND expires_at>{now}
  AND units=%(units)s AND slot<=>%(slot)s;
UPDATE {t}_share_names SET free=free+%(units)s,used_at={now},
  slots=COALESCE(INSERT(slots,%(slot)s+1,1,'0'),slots)
  WHERE name=%(n)s AND queued=0 AND ROW_COUNT()=1;
COMMIT

-- part: deaf
-- Whether the client of a waiter has no session to wake, although it had time to open one.
IS_USED_LOCK(CONCAT('{wakeup_lock}',e.inbox)) IS NULL AND e.seen_at<{now}-{deaf_us}

-- part: gone
-- The owners in @gone, as rows.
(SELECT SUBSTRING_INDEX(SUBSTRING_INDEX(@gone,',',i.i),',',-1) AS owner FROM ({numbers}) i)

-- part: expire
-- Remove the shares that have ended, unless a transaction protects them. A renewal locks the row of
-- the share: once we have locked it, what we read of renewals is what counts. A hand-over that was
-- not claimed shows that its client does not listen: all its waiters are passed over at once.
SELECT GROUP_CONCAT(s.owner) INTO @gone FROM {t}_share_names n
  STRAIGHT_JOIN {t}_shares s ON s.name=n.name
  WHERE n.name=%(n)s AND n.ends_at<={now} AND s.expires_at<={now} AND NOT EXISTS (
    SELECT 1 FROM {t}_renewals r WHERE r.owner=s.owner AND r.expires_at>{now}
  ) FOR UPDATE SKIP LOCKED;
UPDATE {gone} g STRAIGHT_JOIN {t}_share_queue h ON h.owner=g.owner AND h.name=%(n)s
  STRAIGHT_JOIN {t}_share_queue e ON e.name=h.name AND e.inbox=h.inbox SET e.lapsed=1;
DELETE s FROM {gone} g STRAIGHT_JOIN {t}_shares s ON s.name=%(n)s AND s.owner=g.owner
  LEFT JOIN {t}_renewals r ON r.owner=s.owner WHERE {end}<={now}

-- part: slots
-- Computed from the slots that are held: as many zeros before each as there are free slots.
COALESCE((SELECT GROUP_CONCAT(REPEAT('0',x.gap),'1' ORDER BY x.slot SEPARATOR '') FROM (
  SELECT s.slot,s.slot-COALESCE(LAG(s.slot) OVER (ORDER BY s.slot),-1)-1 AS gap FROM {t}_shares s
  WHERE s.name=%(n)s AND s.slot IS NOT NULL) x),'')

-- part: hand_on
-- Free units go to the first waiters, as long as they suffice for a waiter and all before it. The
-- slot and the fence are drawn when the share is claimed.
DELETE FROM {t}_share_queue WHERE name=%(n)s AND seen_at<{now}-{forget};
UPDATE {t}_share_queue e SET e.lapsed=1 WHERE e.name=%(n)s AND e.lapsed=0 AND {deaf};
INSERT INTO {t}_shares {columns}
  SELECT w.name,w.owner,w.units,NULL,0,w.ttl,{now},{now}+LEAST({claim_us},w.ttl),0,w.meta FROM (
    SELECT q.name,q.owner,q.units,q.ttl,q.meta,SUM(q.units) OVER (ORDER BY q.place) AS up_to
    FROM {t}_share_queue q LEFT JOIN {t}_shares s ON s.name=q.name AND s.owner=q.owner
    WHERE q.name=%(n)s AND q.lapsed=0 AND s.owner IS NULL
  ) w JOIN (
    SELECT MAX(n.capacity)-COALESCE(SUM(s.units),0) AS free FROM {t}_share_names n
    LEFT JOIN {t}_shares s ON s.name=n.name WHERE n.name=%(n)s
  ) f ON w.up_to<=f.free

-- part: settle
-- A share that has ended and is protected is checked again in a moment, and requests that come
-- meanwhile do not put that off; ended shares that this packet has left over are checked at once.
UPDATE {t}_share_names n SET
  n.free=n.capacity-(SELECT COALESCE(SUM(s.units),0) FROM {t}_shares s WHERE s.name=n.name),
  n.ends_at=GREATEST(IF(LENGTH(@gone)>={full},0,
      LEAST({now}+{protected_us},IF(n.ends_at>{now},n.ends_at,{never}))),
    (SELECT COALESCE(MIN({end}),{never}) FROM {held} WHERE s.name=n.name)),
  n.queued=EXISTS(SELECT 1 FROM {t}_share_queue q WHERE q.name=n.name),n.slots={slots}
  WHERE n.name=%(n)s

-- part: handed
FROM {t}_shares s JOIN {t}_share_queue q ON q.name=s.name AND q.owner=s.owner
  WHERE s.name=%(n)s AND s.claimed=0 AND q.inbox<>''

-- part: whom
SELECT MIN(q.inbox) INTO @inbox {handed};
SELECT q.owner,q.inbox {handed}

-- packet: wake
-- The session that has the lock of an inbox is its listener. An error if no session has it.
KILL QUERY IS_USED_LOCK(CONCAT('{wakeup_lock}',%(inbox)s))

-- part: wake_first
KILL QUERY IS_USED_LOCK(CONCAT('{wakeup_lock}',@inbox))

-- part: room
SET SESSION group_concat_max_len=1000000

-- packet: acquire
{room};
START TRANSACTION;
INSERT INTO {t}_share_names (name,capacity,free,fence,slots,queued,ends_at,used_at)
  VALUES(%(n)s,%(limit)s,%(limit)s,GREATEST({now},(SELECT fence FROM {t}_fence)+1),'',0,{never},{now})
  ON DUPLICATE KEY UPDATE used_at={now};
{expire};
UPDATE {t}_share_names n SET n.fence=GREATEST(n.fence+1,{now}),n.slots={slots},n.given=%(slot)s,
  n.capacity=IF(EXISTS(SELECT 1 FROM {t}_shares s WHERE s.name=n.name)
    OR EXISTS(SELECT 1 FROM {t}_share_queue q WHERE q.name=n.name),n.capacity,%(limit)s)
  WHERE n.name=%(n)s;
UPDATE {t}_shares SET units=LEAST(units,%(units)s) WHERE name=%(n)s AND owner=%(o)s;
INSERT INTO {t}_share_queue (owner,name,units,inbox,ttl,since,seen_at,lapsed,meta)
  SELECT %(o)s,%(n)s,%(units)s,%(inbox)s,%(ttl)s,{now},{now},0,%(meta)s FROM {t}_share_names n
  WHERE n.name=%(n)s AND n.capacity=%(limit)s AND NOT EXISTS (
    SELECT 1 FROM {t}_shares s WHERE s.name=n.name AND s.owner=%(o)s AND s.claimed=1)
  ON DUPLICATE KEY UPDATE seen_at=VALUES(seen_at),lapsed=0,
  inbox=IF(VALUES(inbox)='',{t}_share_queue.inbox,VALUES(inbox));
{hand_on};
UPDATE {t}_shares s JOIN {t}_share_names n ON n.name=s.name
  SET s.slot=COALESCE(s.slot,n.given),s.fence=IF(s.fence=0,n.fence,s.fence),s.ttl=%(ttl)s,
  s.expires_at={now}+%(ttl)s,s.claimed=1 WHERE s.name=%(n)s AND s.owner=%(o)s;
DELETE q FROM {t}_share_queue q LEFT JOIN {t}_shares s ON s.name=q.name AND s.owner=q.owner
  WHERE q.owner=%(o)s AND q.name=%(n)s AND (s.owner IS NOT NULL OR q.inbox='');
{settle};
{whom};
SELECT s.fence,s.slot,s.units,n.capacity,n.queued,n.ends_at-{now},
  (SELECT COUNT(*) FROM {t}_share_queue a WHERE a.name=n.name AND a.place<COALESCE(
    (SELECT b.place FROM {t}_share_queue b WHERE b.owner=%(o)s AND b.name=n.name),1<<62)),
  (SELECT h.meta FROM {t}_shares h WHERE h.name=n.name LIMIT 1),LENGTH(@gone)>={full}
  FROM {t}_share_names n LEFT JOIN {t}_shares s ON s.name=n.name AND s.owner=%(o)s
  WHERE n.name=%(n)s;
COMMIT;
{wake_first}

-- part: row
UPDATE {t}_share_names SET used_at={now} WHERE name=%(n)s

-- part: end_of_turn
{hand_on};
{settle};
{whom};
SELECT @held,(SELECT queued FROM {t}_share_names WHERE name=%(n)s);
COMMIT;
{wake_first}

-- packet: leave
-- With %(most)s=0 a share that was claimed stays as it is.
{room};
START TRANSACTION;
{row};
SELECT COUNT(*) INTO @held FROM {held}
  WHERE s.name=%(n)s AND s.owner=%(o)s AND s.claimed=1 AND {end}>{now} FOR UPDATE;
DELETE FROM {t}_share_queue WHERE owner=%(o)s AND name=%(n)s;
DELETE FROM {t}_shares WHERE name=%(n)s AND owner=%(o)s AND claimed<=%(most)s;
{expire};
{end_of_turn}

-- packet: name_of
SELECT MIN(name) INTO @name FROM {t}_share_queue WHERE owner=%(o)s

-- packet: revoke
{room};
START TRANSACTION;
{row};
{expire};
SELECT COUNT(*) INTO @held FROM {t}_shares WHERE name=%(n)s AND claimed=1;
INSERT INTO {t}_revoked SELECT s.owner,%(reason)s,{end}+s.ttl+{forget} FROM {held}
  WHERE s.name=%(n)s AND s.claimed=1 ON DUPLICATE KEY UPDATE reason=VALUES(reason);
DELETE FROM {t}_shares WHERE name=%(n)s AND claimed=1;
{end_of_turn}

-- packet: listen
-- Reading and sleeping are one statement: a wake-up that comes after the read ends the sleep. Of
-- each name this returns the waiters that were handed units, and the first one if it has to retry.
SELECT c.calls,IF(c.calls IS NULL,
    SLEEP(LEAST(%(nap)s,GREATEST(0.002,COALESCE((c.soonest-{now})/1000000,%(nap)s)))),0)
  FROM (SELECT GROUP_CONCAT(IF(w.handed OR (w.turn=1 AND w.stirs),w.owner,NULL)) AS calls,
    MIN(w.ends_at) AS soonest FROM (
      SELECT w.owner,n.ends_at,s.owner IS NOT NULL AS handed,
        ROW_NUMBER() OVER (PARTITION BY w.name ORDER BY w.place) AS turn,
        n.name IS NULL OR n.ends_at<={now} OR EXISTS (
          SELECT 1 FROM {t}_share_queue e
          WHERE e.name=w.name AND e.place<w.place AND e.lapsed=0 AND {deaf}
        ) OR (n.free>=w.units AND NOT EXISTS (
          SELECT 1 FROM {t}_share_queue e LEFT JOIN {t}_shares h ON h.name=e.name AND h.owner=e.owner
          WHERE e.name=w.name AND e.place<w.place AND e.lapsed=0 AND h.owner IS NULL
        )) AS stirs
      FROM {t}_share_queue w LEFT JOIN {t}_share_names n ON n.name=w.name
      LEFT JOIN {t}_shares s ON s.name=w.name AND s.owner=w.owner WHERE %(whose)s
  ) w) c

-- packet: heartbeat
UPDATE {t}_share_queue w SET w.seen_at={now},w.lapsed=0 WHERE %(whose)s

-- part: renewed
-- The names are compared by themselves, too, so that the index is used.
FROM {held} WHERE s.name IN (%(names)s) AND (s.name,s.owner) IN (%(pairs)s) AND {end}>{now}

-- packet: renew
INSERT INTO {t}_renewals (owner,ttl,expires_at)
  SELECT s.owner,%(ttl)s,{now}+%(ttl)s {renewed} LOCK IN SHARE MODE
  ON DUPLICATE KEY UPDATE ttl=VALUES(ttl),expires_at=VALUES(expires_at);
SELECT s.owner,NULL {renewed} UNION ALL
  SELECT owner,reason FROM {t}_revoked WHERE owner IN (%(owners)s)

-- packet: end_in
START TRANSACTION;
UPDATE {t}_share_names SET ends_at=LEAST(ends_at,{now}+%(rest)s) WHERE name=%(n)s;
UPDATE {held} SET s.expires_at={now}+%(rest)s,r.expires_at={now}+%(rest)s
  WHERE s.name=%(n)s AND s.owner=%(o)s AND s.claimed=1 AND {end}>{now};
COMMIT

-- packet: verification
-- Its parameters are filled in by the driver.
SELECT s.fence FROM {t}_shares s WHERE s.name=%s AND s.owner=%s AND s.claimed=1
  AND (s.expires_at>{now} OR EXISTS (
    SELECT 1 FROM {t}_renewals r WHERE r.owner=%s AND r.expires_at>{now}
  )) LOCK IN SHARE MODE

-- part: holders
SELECT SUBSTR(s.name,2),s.fence,COALESCE(r.ttl,s.ttl),{now}-s.since,{end}-{now},s.meta,s.slot,
  LEFT(s.name,1),s.units=n.capacity,n.capacity FROM {held} JOIN {t}_share_names n ON n.name=s.name
  WHERE s.claimed=1 AND {end}>{now} AND

-- packet: state
{holders} s.name IN (%(names)s) ORDER BY s.name DESC,s.fence;
SELECT {now}-q.since,q.meta,LEFT(q.name,1),q.units=n.capacity,n.capacity
  FROM {t}_share_queue q JOIN {t}_share_names n ON n.name=q.name
  LEFT JOIN {t}_shares s ON s.name=q.name AND s.owner=q.owner
  WHERE q.name IN (%(names)s) AND s.owner IS NULL AND q.seen_at>={now}-{forget}
  ORDER BY q.name DESC,q.place

-- packet: scan
{holders} LEFT(s.name,%(size)s) IN (%(names)s) ORDER BY SUBSTR(s.name,2),s.name DESC,s.fence
