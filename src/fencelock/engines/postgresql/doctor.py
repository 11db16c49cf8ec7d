"""Check a server's settings and surroundings against our promises, for ``fencelock doctor``."""

from __future__ import annotations

from collections.abc import Mapping

from ...model import Finding
from .. import doctor
from .settings import Settings
from .statements import ADVISORY, Statement

_SETTINGS = (
    "synchronous_commit",
    "fsync",
    "synchronous_standby_names",
    "idle_session_timeout",
    "statement_timeout",
    "transaction_timeout",
    "max_connections",
    "max_locks_per_transaction",
    "max_prepared_transactions",
)

# The current values are those that we set; reset_val is what other sessions would get.
FACTS = Statement(
    "",
    f"""SELECT name, reset_val FROM pg_settings WHERE name IN {_SETTINGS}
    UNION ALL SELECT 'clock', extract(epoch FROM clock_timestamp())::text
    UNION ALL SELECT 'standby', pg_is_in_recovery()::text
    UNION ALL SELECT 'followers', count(*)::text FROM pg_stat_replication
    UNION ALL SELECT 'asynchronous', count(*)::text FROM pg_stat_replication
      WHERE sync_state = 'async'
    UNION ALL SELECT 'locks', count(*)::text FROM pg_locks WHERE NOT fastpath
    UNION ALL SELECT 'connections', count(*)::text FROM pg_stat_activity
      WHERE backend_type = 'client backend'
    UNION ALL SELECT 'stores', coalesce(string_agg(nspname || '.' || left(proname, -8), ', '), '')
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
      WHERE proname LIKE '%\\_hand\\_on'
    UNION ALL SELECT 'version', current_setting('server_version')""",
)


def diagnose(
    facts: Mapping[str, str], settings: Settings, direct: bool, wall_s: float
) -> list[Finding]:
    """Return the findings for a server's facts."""
    return [
        Finding("ok", "server", f"PostgreSQL {facts['version']}, mode={settings.mode}"),
        *_store(facts, settings),
        _pooler(settings, direct),
        *_durability(facts, direct),
        *_followers(facts),
        doctor.clock(float(facts["clock"]) - wall_s),
        *_timeouts(facts, settings, direct),
        *_room(facts, settings),
    ]


def _store(facts: Mapping[str, str], settings: Settings) -> list[Finding]:
    """Return where the locks are, and which other tables of locks the database has."""
    if settings.mode == "advisory":
        text = "advisory locks exclude all who use them in this database"
        return [Finding("ok", "store", f"{text}; their fences come from {ADVISORY}_fence")]
    mine = f"{settings.schema}.{settings.table}"
    found = [Finding("ok", "store", f"{mine}_*, for all clients with mode={settings.mode} there")]
    others = [other for other in facts["stores"].split(", ") if other and other != mine]
    if others:
        text = f"{', '.join(others)}: clients that lock there do not exclude those of {mine}"
        advice = "give all clients the same schema and table, unless they are meant to be apart"
        alike = any(other.endswith(f".{settings.table}") for other in others)
        found.append(Finding("warning" if alike else "note", "store", text, advice))
    return found


def _pooler(settings: Settings, direct: bool) -> Finding:
    if direct:
        return Finding("ok", "pooler", "none in the way")
    if settings.mode == "lease" and settings.listen is None:
        text = "one stands in the way: waiters look by themselves, since no notification comes"
        return Finding("note", "pooler", text, "name the server itself with listen=host:port")
    return Finding("note", "pooler", "one stands in the way, and gives each client one session")


def _durability(facts: Mapping[str, str], direct: bool) -> list[Finding]:
    found: list[Finding] = []
    if facts["synchronous_commit"] == "off":
        text = "synchronous_commit is off: a crash of the server would forget the last grants"
        if direct:
            found.append(Finding("note", "durability", f"{text}; our sessions turn it on"))
        else:
            found.append(Finding("problem", "durability", text, "turn it on for this role"))
    if facts["fsync"] == "off":
        text = "fsync is off: a crash of the machine can lose everything"
        found.append(Finding("problem", "durability", text, "turn fsync on"))
    return found or [Finding("ok", "durability", "commits are on disk before they are answered")]


def _followers(facts: Mapping[str, str]) -> list[Finding]:
    if facts["standby"] in ("t", "true"):
        return [Finding("problem", "replication", "this is a standby", "name the primary")]
    if int(facts["asynchronous"]):
        return [
            Finding(
                "warning",
                "replication",
                "a standby follows asynchronously: a failover can forget the last grants, and two "
                "may hold until the first is told. Their fences still grow",
                "set synchronous_standby_names, or let a guard check the fence",
            )
        ]
    return []


def _timeouts(facts: Mapping[str, str], settings: Settings, direct: bool) -> list[Finding]:
    found: list[Finding] = []
    if settings.mode == "row" or settings.bound == "transaction":
        limit = int(facts.get("transaction_timeout", "0"))
        if limit:
            text = f"transaction_timeout ends every hold after {limit / 1000:g} s"
            found.append(Finding("warning", "timeouts", text, "set it to 0 for this role"))
    statement = int(facts["statement_timeout"])
    if not direct and 0 < statement < settings.request_timeout * 1000:
        text = f"statement_timeout is {statement / 1000:g} s, less than request_timeout"
        found.append(Finding("note", "timeouts", text))
    idle = int(facts.get("idle_session_timeout", "0"))
    if idle and settings.mode == "lease":
        text = f"idle connections are ended after {idle / 1000:g} s; we open new ones"
        found.append(Finding("note", "timeouts", text))
    return found or [Finding("ok", "timeouts", "none that would end a session early")]


def _room(facts: Mapping[str, str], settings: Settings) -> list[Finding]:
    connections, most = int(facts["connections"]), int(facts["max_connections"])
    slots = most + int(facts["max_prepared_transactions"])
    room, used = int(facts["max_locks_per_transaction"]) * slots, int(facts["locks"])
    found = [
        doctor.room("connections", connections, most, "raise max_connections, or use a pooler")
    ]
    if settings.mode == "advisory":
        advice = "raise max_locks_per_transaction, or use mode=lease"
        found.append(doctor.room("lock table", used, room, advice))
    return found
