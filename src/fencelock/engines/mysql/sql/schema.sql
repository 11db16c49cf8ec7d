-- The tables of this engine; {t} is what their names begin with.

-- table: locks
-- Who holds what. A free name keeps its row for a minute (owner ''), then it is removed.
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
-- Until when a hold was extended. Apart from the hold, whose row a transaction of yours may lock.
CREATE TABLE IF NOT EXISTS {t}_renewals (
  owner VARBINARY(64) NOT NULL PRIMARY KEY,
  ttl BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
) ENGINE=InnoDB;

-- table: waiters
-- Who waits, in the order of their places.
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
-- Why a lock was taken from its holder, until the holder has heard of it.
CREATE TABLE IF NOT EXISTS {t}_revoked (
  owner VARBINARY(64) NOT NULL PRIMARY KEY,
  reason VARBINARY(2048) NOT NULL,
  until BIGINT NOT NULL
) ENGINE=InnoDB;

-- table: fence
-- The highest fence of rows that were removed; of mode=advisory, when a session began.
CREATE TABLE IF NOT EXISTS {t}_fence (
  id TINYINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE=InnoDB;
INSERT IGNORE INTO {t}_fence VALUES (1, 0);

-- table: holders
-- mode=advisory: what a session holds by GET_LOCK, for whoever asks.
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
-- wait for a disk. When the server restarts it begins anew, above {t}_fence and above the clock.
CREATE TABLE IF NOT EXISTS {t}_fences (
  id TINYINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE=MEMORY;

-- table: database
-- mode=advisory: one database for the whole server, as GET_LOCK is. Each account that locks needs
-- GRANT SELECT, INSERT, UPDATE, DELETE ON {d}.*
CREATE DATABASE IF NOT EXISTS {d};
