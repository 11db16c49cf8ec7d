"""Check a server and its settings against our promises."""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Finding
from ...world import World
from ..doctor import clock, clock_offset, room
from .literals import NOW
from .server import Server, inspect_server
from .settings import Settings
from .tables import NEEDED
from .wire.codec import Row
from .wire.connection import Connection

ROOM_ADVICE = "raise max_connections: a client that cannot connect can neither lock nor renew"
CLOCK_ADVICE = "leases are not affected, and fences use the server's clock: set the wrong clock"
_OTHERS = (  # tables with locks that the account can see
    "SELECT CONCAT(table_schema,'.',table_name),table_schema=DATABASE() FROM"
    " information_schema.columns WHERE column_name='fence'"
    " AND table_name REGEXP '^[a-z0-9_]+_(locks|holders)$' ORDER BY 1"
)
TESTED = {"MariaDB": (10, 11), "MySQL": (9, 7)}


async def diagnose(connection: Connection, settings: Settings, world: World) -> list[Finding]:
    """Return all findings about one server."""
    server = await inspect_server(connection, settings)
    before = world.wall_us()
    replies = await connection.query(
        f"SELECT {NOW},CONNECTION_ID();SHOW GLOBAL STATUS LIKE 'Threads_connected';"
        f"SELECT CONNECTION_ID();{_OTHERS}",
        settings.request_timeout,
    )
    (now, first), (again,) = replies[0].rows[0], replies[2].rows[0]
    ahead = clock_offset(int(now or 0), before, world.wall_us())
    used = int(replies[1].rows[0][1] or 0) if replies[1].rows else 0
    most = int(server.variables.get("max_connections", "0") or 0)
    return [
        _version(server),
        _durability(server, settings),
        _writable(server),
        *_copies(server, settings),
        *_proxy(server, first == again, settings),
        _timeouts(server),
        *_elsewhere(replies[3].rows, settings),
        room("connections", used, most, ROOM_ADVICE),
        clock(ahead, advice=CLOCK_ADVICE),
    ]


def _version(server: Server) -> Finding:
    version = server.variables.get("version", "unknown")
    maker = "MariaDB" if server.is_mariadb else "MySQL"
    tested = TESTED[maker]
    if server.version[:2] >= tested:
        return Finding("ok", "server", f"{maker} {version}")
    text = f"{maker} {version}: it is tested from {maker} {tested[0]}.{tested[1]} on"
    advice = "run fencelock's conformance checks against it, as CONTRIBUTING.md says"
    return Finding("note", "server", text, advice)


def _durability(server: Server, settings: Settings) -> Finding:
    level = server.variables.get("innodb_flush_log_at_trx_commit", "1")
    if server.durable:
        return Finding("ok", "durability", "each commit is on disk before it is answered")
    text = f"innodb_flush_log_at_trx_commit={level}: a power cut forgets the last commits"
    if settings.mode == "lease":
        return Finding("problem", "durability", text, "set it to 1, or rely on fences alone")
    return Finding("note", "durability", text, "these locks end with the server anyway")


def _writable(server: Server) -> Finding:
    if server.variables.get("read_only", "OFF") in ("OFF", "0"):
        return Finding("ok", "writes", "the server takes them")
    advice = "name the primary in the URL: a replica grants nothing"
    return Finding("problem", "writes", "the server is read-only", advice)


def _copies(server: Server, settings: Settings) -> list[Finding]:
    if server.is_cluster:
        text = "several nodes take writes, and locks of rows and sessions are each node's own"
        if settings.mode == "lease":
            advice = "let all clients use one node at a time"
            return [Finding("warning", "cluster", text, advice)]
        return [Finding("problem", "cluster", text, "use mode=lease, on one node at a time")]
    semi = ("rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled")
    if server.variables.get("log_bin", "OFF") not in ("ON", "1"):
        return [Finding("ok", "replication", "none: the server has no binary log")]
    if any(server.variables.get(name, "OFF") in ("ON", "1") for name in semi):
        return [Finding("ok", "replication", "semi-synchronous")]
    text = "a replica may lag: a failover to it forgets the last grants. Fences still grow"
    advice = "check fences at the resource; semi-synchronous replication makes the gap small"
    return [Finding("note", "replication", text, advice)]


def _proxy(server: Server, same: bool, settings: Settings) -> list[Finding]:
    comment = " ".join(map(str, server.variables.values())).lower()
    if same and "proxysql" not in comment and "maxscale" not in comment:
        return []
    text = "a proxy stands between us and the server, and may change sessions under us"
    if settings.mode == "lease":
        return [
            Finding(
                "note", "proxy", text, "mode=lease is not affected if the proxy leads to one node"
            )
        ]
    advice = "connect to the server itself, or use mode=lease"
    return [Finding("warning" if same else "problem", "proxy", text, advice)]


def _timeouts(server: Server) -> Finding:
    seconds = server.variables.get("wait_timeout", "28800")
    text = f"wait_timeout={seconds}; each session of ours sets its own"
    return Finding("ok", "timeouts", text)


def _elsewhere(rows: Sequence[Row], settings: Settings) -> list[Finding]:
    """Warn of other tables with locks: clients that use those do not exclude ours."""
    ours = f"{settings.table}_{NEEDED[settings.mode][0]}"
    found = [(name or b"").decode() for name, _ in rows]
    here = {(name or b"").decode() for name, here in rows if here == b"1"}
    others = [n for n in found if n != ours and (n not in here or n.partition(".")[2] != ours)]
    if not others:
        return []
    named = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
    text = f"locks are kept in {named}, too: clients that use those do not exclude ours"
    advice = "give all programs that share a lock the same mode, database and table"
    return [Finding("note", "other locks", text, advice)]
