-- The tables of a lock file. A release that adds tables creates them in older files, too, and keeps
-- the version of the schema: older releases do not know them and work beside the newer ones.

-- table: waiters
CREATE TABLE IF NOT EXISTS waiters (
    name TEXT, place INTEGER, owner TEXT NOT NULL, ttl REAL NOT NULL, since REAL NOT NULL,
    seen_at REAL NOT NULL, lapsed INTEGER NOT NULL, inbox TEXT NOT NULL, meta TEXT NOT NULL,
    PRIMARY KEY (name, place)
) WITHOUT ROWID

-- table: revoked
CREATE TABLE IF NOT EXISTS revoked (
    owner TEXT PRIMARY KEY, reason TEXT NOT NULL, until REAL NOT NULL
) WITHOUT ROWID

-- Semaphores and read/write locks. A key is one character that no name can have, and then the name:
-- U+0001 for a semaphore, U+0002 for a read/write lock.

-- table: shares
CREATE TABLE IF NOT EXISTS shares (
    key TEXT, owner TEXT, units INTEGER NOT NULL, capacity INTEGER NOT NULL, slot INTEGER,
    fence INTEGER NOT NULL, ttl REAL NOT NULL, since REAL NOT NULL, expires_at REAL NOT NULL,
    claimed INTEGER NOT NULL, meta TEXT NOT NULL,
    PRIMARY KEY (key, owner)
) WITHOUT ROWID

-- index: share_slots
CREATE UNIQUE INDEX IF NOT EXISTS share_slots ON shares (key, slot) WHERE slot IS NOT NULL

-- table: share_waiters
CREATE TABLE IF NOT EXISTS share_waiters (
    key TEXT, place INTEGER, owner TEXT NOT NULL, units INTEGER NOT NULL, capacity INTEGER NOT NULL,
    ttl REAL NOT NULL, since REAL NOT NULL, seen_at REAL NOT NULL, lapsed INTEGER NOT NULL,
    inbox TEXT NOT NULL, meta TEXT NOT NULL,
    PRIMARY KEY (key, place)
) WITHOUT ROWID

-- table: share_names
-- One row for each key that is held or waited for, maintained by the triggers below, so that no
-- transaction has to read all holders. No share ends before ends_at, and no slot below low_slot is
-- free; both may be lower than necessary.
CREATE TABLE IF NOT EXISTS share_names (
    key TEXT PRIMARY KEY, capacity INTEGER NOT NULL, used INTEGER NOT NULL,
    ends_at REAL NOT NULL, low_slot INTEGER,
    CHECK (used BETWEEN 0 AND capacity)
) WITHOUT ROWID

-- trigger: share_given
CREATE TRIGGER IF NOT EXISTS share_given AFTER INSERT ON shares BEGIN
    UPDATE locks SET fence = NEW.fence WHERE name = '';
    INSERT INTO share_names
        VALUES (NEW.key, NEW.capacity, NEW.units, NEW.expires_at, NEW.slot + 1)
        ON CONFLICT (key) DO UPDATE SET used = used + NEW.units,
            ends_at = MIN(ends_at, NEW.expires_at), low_slot = NEW.slot + 1;
END

-- trigger: share_changed
CREATE TRIGGER IF NOT EXISTS share_changed AFTER UPDATE OF units, expires_at ON shares
WHEN NEW.units <> OLD.units OR NEW.expires_at < OLD.expires_at BEGIN
    UPDATE share_names SET used = used - OLD.units + NEW.units,
        ends_at = MIN(ends_at, NEW.expires_at) WHERE key = NEW.key;
END

-- trigger: share_ended
CREATE TRIGGER IF NOT EXISTS share_ended AFTER DELETE ON shares BEGIN
    DELETE FROM share_names WHERE key = OLD.key AND used = OLD.units
        AND NOT EXISTS (SELECT 1 FROM share_waiters WHERE key = OLD.key);
    UPDATE share_names SET used = used - OLD.units, low_slot = MIN(low_slot, OLD.slot)
        WHERE key = OLD.key;
END

-- trigger: share_waiter_joined
CREATE TRIGGER IF NOT EXISTS share_waiter_joined AFTER INSERT ON share_waiters BEGIN
    INSERT OR IGNORE INTO share_names VALUES (NEW.key, NEW.capacity, 0, 9e99, 0);
END

-- trigger: share_waiter_left
CREATE TRIGGER IF NOT EXISTS share_waiter_left AFTER DELETE ON share_waiters BEGIN
    DELETE FROM share_names WHERE key = OLD.key AND used = 0
        AND NOT EXISTS (SELECT 1 FROM share_waiters WHERE key = OLD.key);
END

-- The memos of names. All items of a name are kept until the latest of their ends.

-- table: memos
CREATE TABLE IF NOT EXISTS memos (
    name TEXT, item TEXT, number INTEGER NOT NULL, keep REAL NOT NULL, until REAL NOT NULL,
    PRIMARY KEY (name, item)
) WITHOUT ROWID

-- The locks come last, so that the last page of a new file has rows: a truncated file is then found
-- to be damaged.

-- table: locks
CREATE TABLE IF NOT EXISTS locks (
    name TEXT PRIMARY KEY, owner TEXT NOT NULL, fence INTEGER NOT NULL, ttl REAL NOT NULL,
    since REAL NOT NULL, expires_at REAL NOT NULL, claimed INTEGER NOT NULL, meta TEXT NOT NULL
) WITHOUT ROWID

-- row: highest_fence
-- The highest fence is in a row of its own, under the one name that no lock can have, and in the
-- same table: so a grant writes one page and not two.
INSERT OR IGNORE INTO locks VALUES ('', '', 0, 0, 0, 9e99, 0, '{}')

-- trigger: mark
CREATE TRIGGER IF NOT EXISTS mark AFTER INSERT ON locks BEGIN
    UPDATE locks SET fence = NEW.fence WHERE name = '';
END
