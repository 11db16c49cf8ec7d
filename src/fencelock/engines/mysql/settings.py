"""Read and check the URL and its options, before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from ..options import POOL, REQUEST_TIMEOUT_S, Reader, choice, common, text
from .tables import ADVISORY, TABLE, check_table

PORT = 3306
_mode = choice("mode", "lease", "advisory")


def _read_mode(value: object) -> str:
    """Read the mode; refuse ``row``, which only PostgreSQL has, and name the alternative."""
    if value == "row":
        raise Misconfigured(
            "mode=row is PostgreSQL's: on MySQL and MariaDB use mode=lease, and call "
            "fencelock.sql.verify(connection, lease) in the transaction before it commits"
        )
    return _mode(value)


OPTIONS: Mapping[str, Reader] = {
    **common("request_timeout", "pool", "tls", "ca"),
    "mode": _read_mode,
    "table": check_table,
    "unix_socket": text("unix_socket"),
}


class Settings(NamedTuple):
    """Where the server is and how it is used."""

    host: str
    port: int
    user: str
    password: str
    database: str
    socket: str
    tls: bool | None
    """Whether to encrypt; None leaves it to the driver."""
    ca: str
    mode: str
    table: str
    """The prefix of the tables; in ``mode=advisory`` the same for all clients."""
    request_timeout: float
    pool: int
    where: str
    """The URL without the password, for messages."""


def _tls(options: Mapping[str, object], where: str) -> bool | None:
    """Return ``Settings.tls``: ``ca`` implies TLS; without options the driver decides."""
    wanted = options.get("tls")
    if not options.get("ca"):
        return None if wanted is None else bool(wanted)
    if wanted is False:
        raise Misconfigured(f"{where} has tls=no and ca=…, which is for tls=yes: choose one")
    return True


def read(address: Address) -> Settings:
    """Return the settings of an address whose options were checked."""
    options, database = address.options, address.path.strip("/")
    if not database or "/" in database:
        raise Misconfigured(
            f"{address.public} names no database: write {address.scheme}://user@host:3306/database"
        )
    if len(address.hosts) > 1:
        raise Misconfigured(
            f"{address.public} names several hosts: name the one that takes writes, or a proxy "
            "that leads there"
        )
    mode = str(options.get("mode", "lease"))
    host, port = address.hosts[0] if address.hosts else ("127.0.0.1", None)
    return Settings(
        host=host.strip("[]"),
        port=port or PORT,
        user=address.user or "",
        password=address.password or "",
        database=database,
        socket=str(options.get("unix_socket", "")),
        tls=_tls(options, address.public),
        ca=str(options.get("ca", "")),
        mode=mode,
        table=ADVISORY if mode == "advisory" else str(options.get("table", TABLE)),
        request_timeout=float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
        pool=int(str(options.get("pool", POOL))),
        where=address.public,
    )
