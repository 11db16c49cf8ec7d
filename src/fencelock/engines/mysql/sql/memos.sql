-- The packets of memos, and of the announcements that a name has changed.

-- part: until
SELECT MAX(until) AS until FROM {t}_memos WHERE name=%(n)s

-- packet: remember
-- Memos that have ended are deleted first, unless another client has just stored them again.
START TRANSACTION;
DELETE m FROM ({until}) e JOIN {t}_memos m ON m.name=%(n)s AND e.until<={now} AND m.until<={now};
INSERT INTO {t}_memos (name,item,number,until) VALUES(%(n)s,%(item)s,%(number)s,{now}+%(keep)s)
  ON DUPLICATE KEY UPDATE number=GREATEST(number,VALUES(number)),until=GREATEST(until,VALUES(until));
COMMIT

-- packet: recall
SELECT item,number FROM {t}_memos WHERE name=%(n)s AND ({until})>{now}

-- packet: forget
DELETE FROM {t}_memos WHERE name=%(n)s

-- packet: announce
INSERT INTO {t}_changes (name,number) VALUES(%(n)s,{now})
  ON DUPLICATE KEY UPDATE number=GREATEST(number+1,VALUES(number))

-- packet: look
SELECT name,number FROM {t}_changes WHERE name IN (%(names)s)
