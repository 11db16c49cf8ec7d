"""The tables of this engine: what ``fencelock schema mysql`` prints and what is made on first use.

Names are ``VARBINARY``: every collation of text would take some two different names for one.
Moments are microseconds of the server's clock since 1970, in UTC whatever the time zone.
"""

from __future__ import annotations

import re

from ...errors import Misconfigured

TABLE = "fencelock"
DATABASE = "fencelock"
"""Where ``mode=advisory`` has its tables, whatever database the URL names.

``GET_LOCK`` is the whole server's: all who exclude each other must draw fences from one counter."""
ADVISORY = f"{DATABASE}.advisory"

_TABLES = {
    "locks": """\
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
""",
    "renewals": """\
-- Until when a hold was extended. Apart from the hold, whose row a transaction of yours may lock.
CREATE TABLE IF NOT EXISTS {t}_renewals (
  owner VARBINARY(64) NOT NULL PRIMARY KEY,
  ttl BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
) ENGINE=InnoDB;
""",
    "waiters": """\
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
""",
    "revoked": """\
-- Why a lock was taken from its holder, until the holder has heard of it.
CREATE TABLE IF NOT EXISTS {t}_revoked (
  owner VARBINARY(64) NOT NULL PRIMARY KEY,
  reason VARBINARY(2048) NOT NULL,
  until BIGINT NOT NULL
) ENGINE=InnoDB;
""",
    "fence": """\
-- The highest fence of rows that were removed; of mode=advisory, when a session began.
CREATE TABLE IF NOT EXISTS {t}_fence (
  id TINYINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE=InnoDB;
INSERT IGNORE INTO {t}_fence VALUES (1, 0);
""",
    "holders": """\
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
""",
    "sequence": """\
-- mode=advisory on MariaDB: the counter of fences, without a commit for each.
/*M! CREATE SEQUENCE IF NOT EXISTS {t}_sequence MAXVALUE 9007199254740991 CACHE 1000 */;
""",
    "fences": """\
-- mode=advisory on MySQL, which has no sequences: a counter in memory, so that GET_LOCK need not
-- wait for a disk. When the server restarts it begins anew, above {t}_fence and above the clock.
CREATE TABLE IF NOT EXISTS {t}_fences (
  id TINYINT NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE=MEMORY;
""",
}

_DATABASE = f"""\
-- mode=advisory: one database for the whole server, as GET_LOCK is. Each account that locks needs
-- GRANT SELECT, INSERT, UPDATE, DELETE ON {DATABASE}.*
CREATE DATABASE IF NOT EXISTS {DATABASE};
"""

NEEDED = {
    "lease": ("locks", "renewals", "waiters", "revoked", "fence"),
    "advisory": ("holders", "fence", "fences", "sequence"),
}


def schema(table: str = TABLE) -> str:
    """All tables as SQL text for a migration; it can be run again."""
    prefix = check_table(table)
    own = [_TABLES[name].format(t=prefix) for name in NEEDED["lease"]]
    return "\n".join([*own, _advisory()])


def missing_tables(mode: str, table: str) -> str:
    """What a mode needs, as one packet."""
    needed = "".join(_TABLES[name].format(t=table) for name in NEEDED[mode])
    if mode == "advisory":
        needed = _advisory()
    return "".join(line for line in needed.splitlines(True) if not line.startswith("--")).strip()


def _advisory() -> str:
    tables = [_TABLES[name].format(t=ADVISORY) for name in NEEDED["advisory"]]
    return "\n".join([_DATABASE, *tables])


def check_table(value: object) -> str:
    """Read the prefix of the tables: it is the only text of a caller that becomes SQL."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z_][a-z0-9_]{0,30}", value):
        raise Misconfigured(
            f"table must be 1 to 31 lower-case letters, digits and underscores, not {value!r}"
        )
    return value
