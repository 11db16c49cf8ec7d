"""Read the kind of a server and its settings, and create the tables, when a client connects."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import Misconfigured
from .errors import NO_DATABASE, NO_TABLE, refused
from .settings import Settings
from .tables import DATABASE, NEEDED, missing_tables, probe
from .wire.codec import ServerError
from .wire.connection import Connection

_VARIABLES = (
    "version",
    "version_comment",
    "read_only",
    "innodb_flush_log_at_trx_commit",
    "log_bin",
    "sync_binlog",
    "wsrep_on",
    "wait_timeout",
    "max_connections",
    "max_user_connections",
    "thread_handling",
    "proxy_version",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_source_enabled",
    "group_replication_group_name",
)
ACCESS = (
    f"mode=advisory keeps its fences in the database {DATABASE}, for all who use GET_LOCK on this "
    "server: have an administrator run what `fencelock schema mysql` prints, and GRANT SELECT, "
    f"INSERT, UPDATE, DELETE ON {DATABASE}.* to the account"
)
_SHOW = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({','.join(map(repr, _VARIABLES))})"
CLUSTER_ADVICE = "use mode=lease: each node of this cluster has GET_LOCK locks of its own"


class Server(NamedTuple):
    """The settings of a server that matter here."""

    variables: dict[str, str]

    @property
    def version(self) -> tuple[int, ...]:
        head = self.variables.get("version", "").partition("-")[0]
        return tuple(int(part) for part in head.split(".") if part.isdigit())

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.variables.get("version", "").lower()

    @property
    def durable(self) -> bool:
        """Whether a commit survives a power cut."""
        return self.variables.get("innodb_flush_log_at_trx_commit", "1") == "1"

    @property
    def skips_locked(self) -> bool:
        """Whether it has SKIP LOCKED; then it has window functions, too, and shares need both."""
        return self.version >= ((10, 6) if self.is_mariadb else (8, 0, 1))

    @property
    def is_cluster(self) -> bool:
        """Whether several nodes take writes, each with row locks and sessions of its own."""
        group = self.variables.get("group_replication_group_name", "")
        return self.variables.get("wsrep_on", "OFF") in ("ON", "1") or group != ""


async def inspect_server(connection: Connection, settings: Settings) -> Server:
    """Read the variables of the server, and create the tables of the mode if they are missing."""
    try:
        (reply,) = await connection.query(_SHOW, settings.request_timeout)
    except ServerError as error:
        raise refused(error, settings.where) from error
    server = Server({_str(name): _str(value) for name, value in reply.rows})
    _refuse_old(server, settings)
    await _have_tables(connection, settings, server)
    return server


def _refuse_old(server: Server, settings: Settings) -> None:
    version = server.variables.get("version", "")
    if settings.mode == "advisory" and not server.is_mariadb and server.version < (5, 7, 5):
        why = "GET_LOCK drops the lock that a session had before: use 5.7.5 or newer"
        raise Misconfigured(f"{settings.where} has version {version}, where {why}, or mode=lease")


async def _have_tables(connection: Connection, settings: Settings, server: Server) -> None:
    needed = [n for n in NEEDED[settings.mode] if n != "sequence" or server.is_mariadb]
    advice = ACCESS if settings.mode == "advisory" else ""
    try:
        await connection.query(probe(needed, settings.table), settings.request_timeout)
    except ServerError as error:
        if error.code not in (NO_TABLE, NO_DATABASE):
            raise refused(error, settings.where, advice) from error
        try:
            await connection.query(
                missing_tables(settings.mode, settings.table), settings.request_timeout
            )
        except ServerError as refusal:
            raise refused(refusal, settings.where, advice) from refusal


def _str(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")
