-- The tables of this engine; {t} is the prefix of their names.

-- table: locks
-- The holder of each name. A free name keeps its row for a minute (owner ''), then it is removed.
CREATE TABLE IF NOT EXISTS {t}_locks (
  name VARBINARY(512) NOT NULL PRIMARY KEY,
  owner VARBINARY(64) NOT NULL,
  fence BIGINT NOT NULL,
  ttl BIGINT NOT NULL,
  since BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  claimed TINYINT NOT NULL,
  queued INT NOT NULL,
  meta VARBINARY(8192) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- table: renewals
-- Until when a hold was extended. Apart from the hold, whose row a transaction of a user may lock.
CREATE TABLE IF NOT EXISTS {t}_renewals (
  owner VARBINARY(64) NOT NULL PRIMARY KEY,
  ttl BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
) ENGINE=InnoDB;

-- table: waiters
-- The queue: the waiters of each name, in the order of place.
CREATE TABLE IF NOT EXISTS {t}_waiters (
  owner VARBINARY(64) NOT NULL PRIMARY KEY,
  name VARBINARY(512) NOT NULL,
  place BIGINT NOT NULL AUTO_INCREMENT,
  inbox VARBINARY(64) NOT NULL,
  ttl BIGINT NOT NULL,
  since BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  lapsed TINYINT NOT NULL,
  meta VARBINARY(8192) NOT NULL,
  KEY by_place (place),
  KEY by_name (name, place),
  KEY by_inbox (inbox)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- table: revoked
-- Why a lock was revoked, for its holder to read. Kept until well after the lease would have ended.
CREATE TABLE IF NOT EXISTS {t}_revoked (
  owner VARBINARY(64) NOT NULL PRIMARY KEY,
  reason VARBINARY(2048) NOT NULL,
  until BIGINT NOT NULL
) ENGINE=InnoDB;

-- table: fence
-- The highest fence of rows that were removed; in mode=advisory, when a session began.
CREATE TABLE IF NOT EXISTS {t}_fence (
  id TINYINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE=InnoDB;
INSERT IGNORE INTO {t}_fence VALUES (1, 0);

-- table: share_names
-- Semaphores and read/write locks: a row for each name in use, and for a while after. Here and in
-- the two tables below a name begins with s for a semaphore, with r for a read/write lock. capacity
-- is the number of its units, and free how many are free; slots has a 1 for each slot that is held,
-- up to the highest that was, and given is the one that was given last. queued says that somebody
-- waits. No share of the name ends before ends_at.
CREATE TABLE IF NOT EXISTS {t}_share_names (
  name VARBINARY(513) NOT NULL PRIMARY KEY,
  capacity INT NOT NULL,
  free INT NOT NULL,
  fence BIGINT NOT NULL,
  slots MEDIUMBLOB NOT NULL,
  given INT,
  queued TINYINT NOT NULL,
  ends_at BIGINT NOT NULL,
  used_at BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- table: shares
-- The holders of such a name, and their units. A share that is not claimed yet has no fence.
CREATE TABLE IF NOT EXISTS {t}_shares (
  name VARBINARY(513) NOT NULL,
  owner VARBINARY(64) NOT NULL,
  units INT NOT NULL,
  slot INT,
  fence BIGINT NOT NULL,
  ttl BIGINT NOT NULL,
  since BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  claimed TINYINT NOT NULL,
  meta VARBINARY(8192) NOT NULL,
  PRIMARY KEY (name, owner),
  UNIQUE KEY by_slot (name, slot)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- table: share_queue
-- The queue for units of such a name, in the order of place.
CREATE TABLE IF NOT EXISTS {t}_share_queue (
  owner VARBINARY(64) NOT NULL,
  name VARBINARY(513) NOT NULL,
  place BIGINT NOT NULL AUTO_INCREMENT,
  units INT NOT NULL,
  inbox VARBINARY(64) NOT NULL,
  ttl BIGINT NOT NULL,
  since BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  lapsed TINYINT NOT NULL,
  meta VARBINARY(8192) NOT NULL,
  PRIMARY KEY (owner, name),
  KEY by_place (place),
  KEY by_name (name, place),
  KEY by_inbox (inbox)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- table: memos
-- The memos of a name: all its items are kept until the latest of their ends.
CREATE TABLE IF NOT EXISTS {t}_memos (
  name VARBINARY(512) NOT NULL,
  item VARBINARY(512) NOT NULL,
  number BIGINT NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (name, item)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- table: changes
-- When a name was last announced, for its observers.
CREATE TABLE IF NOT EXISTS {t}_changes (
  name VARBINARY(512) NOT NULL PRIMARY KEY,
  number BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- table: holders
-- mode=advisory: what a session holds by GET_LOCK, for clients that inspect it.
CREATE TABLE IF NOT EXISTS {t}_holders (
  name VARBINARY(512) NOT NULL PRIMARY KEY,
  owner VARBINARY(64) NOT NULL,
  session BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  ttl BIGINT NOT NULL,
  since BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  meta VARBINARY(8192) NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- table: sequence
-- mode=advisory on MariaDB: the counter of fences, without a commit for each.
/*M! CREATE SEQUENCE IF NOT EXISTS {t}_sequence MAXVALUE 9007199254740991 CACHE 1000 */;

-- table: fences
-- mode=advisory on MySQL, which has no sequences: a counter in memory, so that GET_LOCK need not
-- wait for a disk. After a restart of the server it starts again, above {t}_fence and the clock.
CREATE TABLE IF NOT EXISTS {t}_fences (
  id TINYINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE=MEMORY;

-- table: database
-- mode=advisory: one database for the whole server, as GET_LOCK is. Each account that locks needs
-- GRANT SELECT, INSERT, UPDATE, DELETE ON {d}.*
CREATE DATABASE IF NOT EXISTS {d};
