"""What the modes say to the server. Names, owners and words are parameters, never text.

Identifiers come from the ``table`` and ``schema`` options, which ``settings.py`` has checked.
"""

from __future__ import annotations

from typing import NamedTuple

from .tables import _CLOCK_US as US  # pyright: ignore[reportPrivateUsage]
from .tables import _TIDY_MAX as TIDY_MAX  # pyright: ignore[reportPrivateUsage]
from .tables import ADVISORY, SPACE, functions, qualified, versioned


class Statement(NamedTuple):
    """One statement, and the name under which a connection prepares it."""

    name: str
    sql: str
    kind: str = ""
    """Only statements of one kind share a transaction. Those of a kind that has a name do not wait
    for the disk; those that join a queue must also not wait for others."""


class LeaseStatements:
    """``mode=lease``. The first two are all that a lock takes which nobody contends for."""

    def __init__(self, table: str, namespace: str) -> None:
        t, f = qualified(table, namespace), functions(table, namespace)
        now = "statement_timestamp()"
        self.take_free = Statement(
            "fl_take",
            f"""INSERT INTO {t}_locks AS l
              (name, owner, fence, ttl, since, expires_at, claimed, queued, meta)
            SELECT $1, $2, greatest(last_value + 1, {US}), $3::float8, {now},
              {now} + $3::float8 * interval '1 second', true, false, $4 FROM {t}_floor
            ON CONFLICT (name) DO UPDATE SET owner = excluded.owner,
              fence = greatest(l.fence + 1, excluded.fence), ttl = excluded.ttl,
              since = excluded.since, expires_at = excluded.expires_at, claimed = true,
              meta = excluded.meta, inbox = ''
            WHERE l.owner = '' AND NOT l.queued RETURNING fence""",
        )
        self.give_back = Statement(
            "fl_give",
            f"""UPDATE {t}_locks SET owner = '', claimed = false, expires_at = {now}, meta = ''
            WHERE name = $1 AND owner = $2 AND NOT queued AND expires_at > {now}
            RETURNING set_config('synchronous_commit', 'off', true)""",
            kind="lazy",
        )
        self.acquire = Statement("fl_acquire", f"SELECT * FROM {f}_acquire($1,$2,$3,$4,$5,$6,$7)")
        self.join = Statement("fl_join", f"SELECT {f}_join($1,$2,$3,$4,$5,$6)", kind="join")
        self.leave = Statement("fl_leave", f"SELECT {f}_leave($1, $2, $3)")
        self.revoke = Statement("fl_revoke", f"SELECT {f}_revoke($1, $2)")
        self.renew = Statement(
            "fl_renew",
            f"""UPDATE {t}_locks l SET ttl = g.ttl, inbox = '',
              expires_at = clock_timestamp() + g.ttl * interval '1 second'
            FROM (SELECT w.* FROM unnest($1::text[], $2::text[], $3::float8[])
                AS w (name, owner, ttl) JOIN {t}_locks k ON k.name = w.name
                ORDER BY k.name FOR NO KEY UPDATE OF k) g
            WHERE l.name = g.name AND l.owner = g.owner AND l.expires_at > clock_timestamp()
            RETURNING l.owner""",
        )
        self.why = Statement(
            "fl_why", f"SELECT owner, reason FROM {t}_revoked WHERE owner = ANY ($1::text[])"
        )
        self.alive = Statement(
            "fl_alive",
            f"""UPDATE {t}_waiters SET seen_at = clock_timestamp() WHERE owner IN
            (SELECT owner FROM {t}_waiters WHERE inbox = $1 FOR UPDATE SKIP LOCKED)""",
        )
        self.listen = Statement("", f"SELECT pg_advisory_lock({SPACE}, hashtext($1))")
        self.settle = Statement("fl_settle", f"SELECT * FROM {f}_settle($1)")
        self.tidy = Statement("fl_tidy", f"SELECT {f}_tidy()")
        held = f"""SELECT name, fence, ttl, extract(epoch FROM clock_timestamp() - since),
            extract(epoch FROM expires_at - clock_timestamp()), meta FROM {t}_locks
            WHERE owner <> '' AND claimed AND expires_at > clock_timestamp()"""
        self.holder = Statement("fl_holder", f"{held} AND name = $1")
        self.scan = Statement("fl_scan", f"{held} AND starts_with(name, $1) ORDER BY name")
        self.waiters = Statement(
            "fl_waiters",
            f"""SELECT extract(epoch FROM clock_timestamp() - since), meta FROM {t}_waiters
            WHERE name = $1 ORDER BY place""",
        )
        # A taker needs the row FOR UPDATE, which this holds off; our renewals do not.
        self.verify = f"""SELECT 1 FROM {t}_locks WHERE name = %s AND owner = %s AND fence = %s
            AND expires_at > clock_timestamp() FOR KEY SHARE"""


class SessionStatements:
    """``mode=advisory``, bound to a session. Each lock and unlock is one statement.

    ``CASE`` fixes the order: first the lock, then its fence. Neither writes anything.
    """

    def __init__(self, table: str, namespace: str) -> None:
        t, f = qualified(table, namespace), functions(table, namespace)
        # Committing who holds must not wait for the disk: it is for people to read.
        self.begin = Statement(
            "",
            f"""SELECT pg_backend_pid(), {versioned(ADVISORY)}_lift(), {f}_sweep(),
            set_config('statement_timeout', '0', false),
            set_config('lock_timeout', '0', false), set_config('synchronous_commit', 'off', false),
            set_config('client_connection_check_interval', '5s', false)""",
        )
        draw = f"nextval('{ADVISORY}_fence') END"
        tried = f"SELECT CASE WHEN pg_try_advisory_lock($1::bigint) THEN {draw}"
        self.try_lock = Statement("fl_try", tried)
        # Who gets nothing changes nothing: the session has leases that are not as short.
        self.try_lock_limited = Statement(
            "fl_try_limited",
            f"""SELECT fence, CASE WHEN fence IS NOT NULL THEN {_LIMIT}$2, false) END
            FROM ({tried} AS fence) tried""",
        )
        self.lock = Statement(
            "fl_lock",
            f"""SELECT CASE WHEN pg_advisory_lock($1::bigint)::text IS NOT NULL THEN {draw},
            extract(epoch FROM clock_timestamp() - statement_timestamp()), {_LIMIT}$2, false)""",
        )
        self.unlock = Statement("fl_unlock", "SELECT pg_advisory_unlock($1::bigint)")
        self.unlock_limited = Statement(
            "fl_unlock_limited", f"SELECT pg_advisory_unlock($1::bigint), {_LIMIT}$2, false)"
        )
        self._note(t)
        self._show(t)

    def _note(self, t: str) -> None:
        """Who holds, for people."""
        erase = f"""DELETE FROM {t}_holders h USING unnest($1::text[], $2::text[])
            AS g (name, owner) WHERE h.name = g.name AND h.owner = g.owner"""
        self.erase = Statement("fl_erase", erase)
        self.unlock_noted = Statement(
            "fl_unlock_noted",
            f"""WITH erased AS ({erase})
            SELECT pg_advisory_unlock($3::bigint), {_LIMIT}$4, false)""",
        )
        self.note = Statement(
            "fl_s_note",
            f"""INSERT INTO {t}_holders
            SELECT name, owner, key, fence, ttl, clock_timestamp() - age * interval '1 second',
              clock_timestamp() + remaining * interval '1 second', pg_backend_pid(), NULL, meta
            FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::float8[],
              $6::float8[], $7::float8[], $8::text[])
              AS g (name, owner, key, fence, ttl, age, remaining, meta)
            ON CONFLICT (name) DO UPDATE SET {_OVERWRITE}""",
        )
        # Locks of sessions that call themselves as we do, and no note says whose they are.
        self.unnoted = Statement(
            "fl_unnoted",
            f"""SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE l.granted AND l.locktype = 'advisory' AND l.objsubid = 1
              AND a.application_name = current_setting('application_name')
              AND NOT EXISTS (SELECT 1 FROM {t}_holders h WHERE h.pid = l.pid AND {_IS_KEY})
              AND ($1::bigint IS NULL OR EXISTS
                (SELECT 1 FROM (SELECT $1::bigint AS key) h WHERE {_IS_KEY}))""",
        )
        self.beat = Statement(
            "fl_beat",
            f"""WITH beat AS (UPDATE {t}_holders h SET ttl = g.ttl,
                expires_at = clock_timestamp() + g.ttl * interval '1 second'
              FROM unnest($1::text[], $2::text[], $3::float8[]) AS g (name, owner, ttl)
              WHERE h.name = g.name AND h.owner = g.owner)
            SELECT set_config('idle_session_timeout', $4, false)""",
        )

    def _show(self, t: str) -> None:
        """What people see of it."""
        self.whose = Statement(
            "fl_whose",
            f"""SELECT h.owner, h.fence, h.meta FROM {t}_holders h
            JOIN pg_locks l ON l.pid = h.pid AND l.granted AND {_IS_KEY} WHERE h.name = $1""",
        )
        held = f"""SELECT h.name, h.fence, h.ttl, extract(epoch FROM clock_timestamp() - h.since),
            extract(epoch FROM h.expires_at - clock_timestamp()), h.meta
            FROM {t}_holders h JOIN pg_locks l ON l.pid = h.pid AND l.granted AND {_IS_KEY}
            WHERE h.expires_at > clock_timestamp()"""
        self.holder = Statement("fl_s_holder", f"{held} AND h.name = $1")
        self.scan = Statement("fl_s_scan", f"{held} AND starts_with(h.name, $1) ORDER BY h.name")
        self.waiters = Statement(
            "fl_s_waiters",
            f"""SELECT extract(epoch FROM clock_timestamp() - coalesce(l.waitstart, now())), l.pid
            FROM (SELECT $1::bigint AS key) h JOIN pg_locks l ON NOT l.granted AND {_IS_KEY}
            ORDER BY 1 DESC""",
        )


_LIMIT = "set_config('idle_session_timeout', "

_OVERWRITE = ", ".join(
    f"{column} = excluded.{column}"
    for column in ["owner", "key", "fence", "ttl", "since", "expires_at", "pid", "xid", "meta"]
)

# Where pg_locks shows the advisory lock of a key of 64 bits.
_IS_KEY = """l.locktype = 'advisory' AND l.objsubid = 1
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid::bigint = (h.key >> 32) & 4294967295 AND l.objid::bigint = h.key & 4294967295"""


class BoundStatements:
    """Locks that live in a transaction: ``mode=row``, and advisory locks with bound=transaction."""

    begin = Statement("", "BEGIN ISOLATION LEVEL READ COMMITTED")
    commit = Statement("", "COMMIT")

    @staticmethod
    def commit_of(xid: str) -> Statement:
        """Commit one certain transaction, and no other that its holder may have begun since.

        It fails before the commit, with the transaction left to be rolled back.
        """
        same = "coalesce(pg_current_xact_id_if_assigned()::text, '')"
        return Statement("", f"SELECT 1 / ({same} = '{int(xid)}')::int; COMMIT")

    rollback = Statement("", "ROLLBACK")
    clean = Statement("", "DISCARD ALL")
    beat = Statement("", "SELECT 1")

    def __init__(self, table: str, namespace: str, rows: bool) -> None:
        t, f = qualified(table, namespace), functions(table, namespace)
        counter = t if rows else ADVISORY
        self.lift = Statement("", f"SELECT {versioned(counter)}_lift(), pg_backend_pid()")
        there = f"EXISTS (SELECT 1 FROM {t}_rows WHERE name = $1)"
        row = f"SELECT 1 FROM {t}_rows WHERE name = $1 FOR UPDATE"
        number = "$2::bigint IS NOT NULL"  # both kinds take the same parameters
        if rows:
            self.try_lock = _locking(counter, f"{number} AND ({row} SKIP LOCKED) = 1", there)
            self.lock = _locking(counter, f"{number} AND ({row}) = 1", there)
        else:
            key = "$1::text IS NOT NULL AND "
            tried = f"{key}pg_try_advisory_xact_lock($2::bigint)"
            self.try_lock = _locking(counter, tried, "true")
            taken = "pg_advisory_xact_lock($2::bigint)::text IS NOT NULL"
            self.lock = _locking(counter, key + taken, "true")
        self.make_row = Statement(
            "fl_row", f"INSERT INTO {t}_rows VALUES ($1) ON CONFLICT (name) DO NOTHING"
        )
        self.sweep = Statement("fl_sweep", f"SELECT {f}_sweep()")
        # Whoever tidies locks the rows as a holder does, so it can be waited for.
        tidying = f"{SPACE}, hashtext('{t}_rows')"
        self.tidy = Statement(
            "",
            f"""WITH alone AS MATERIALIZED (SELECT pg_try_advisory_xact_lock({tidying}) AS so,
                set_config('synchronous_commit', 'off', true)),
              unused AS (SELECT r.name FROM {t}_rows r, alone WHERE alone.so
                  AND NOT EXISTS (SELECT 1 FROM {t}_holders h WHERE h.name = r.name)
                LIMIT {TIDY_MAX} FOR UPDATE OF r SKIP LOCKED)
            DELETE FROM {t}_rows WHERE name IN (SELECT name FROM unused)""",
        )
        self.tidied = Statement("fl_tidied", f"SELECT pg_advisory_xact_lock_shared({tidying})")
        self.note = Statement(
            "fl_note",
            f"""INSERT INTO {t}_holders VALUES ($1, $2, NULL, $3::bigint, $4::float8,
              clock_timestamp(), clock_timestamp() + $4::float8 * interval '1 second',
              $5::int, $6, $7) ON CONFLICT (name) DO UPDATE SET {_OVERWRITE}""",
        )
        self.renew = Statement(
            "fl_b_renew",
            f"""WITH noted AS (UPDATE {t}_holders h SET ttl = g.ttl,
                expires_at = clock_timestamp() + g.ttl * interval '1 second'
              FROM unnest($1::text[], $2::text[], $3::float8[]) AS g (name, owner, ttl)
              WHERE h.name = g.name AND h.owner = g.owner)
            SELECT owner FROM unnest($2::text[], $4::text[]) AS g (owner, xid)
            WHERE pg_xact_status(xid::xid8) = 'in progress'""",
        )
        self.status = Statement("fl_status", "SELECT pg_xact_status($1::text::xid8)")
        self.terminate = Statement("fl_terminate", "SELECT pg_terminate_backend($1::int, 1000)")
        live = "expires_at > clock_timestamp() AND pg_xact_status(xid::xid8) = 'in progress'"
        self.whose = Statement(
            "fl_b_whose", f"SELECT owner, fence, meta FROM {t}_holders WHERE name = $1 AND {live}"
        )
        held = f"""SELECT name, fence, ttl, extract(epoch FROM clock_timestamp() - since),
            extract(epoch FROM expires_at - clock_timestamp()), meta
            FROM {t}_holders WHERE {live}"""
        self.holder = Statement("fl_b_holder", f"{held} AND name = $1")
        self.scan = Statement("fl_b_scan", f"{held} AND starts_with(name, $1) ORDER BY name")


def _locking(counter: str, taken: str, there: str) -> Statement:
    return Statement(
        "",
        f"""SELECT CASE WHEN {taken} THEN nextval('{counter}_fence') END, {there},
          pg_current_xact_id()::text,
          extract(epoch FROM clock_timestamp() - statement_timestamp()),
          set_config('idle_in_transaction_session_timeout', $3, true)""",
    )
