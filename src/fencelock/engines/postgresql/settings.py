"""Reading the options of a URL, and saying them in libpq's words."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from ...engine import Address
from ...errors import Misconfigured
from .tables import SCHEMA, check_identifier

Mode: TypeAlias = Literal["lease", "advisory", "row"]
Bound: TypeAlias = Literal["session", "transaction"]

_PASSED_ON = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "connect_timeout",
    "target_session_attrs",
)


class Settings(NamedTuple):
    """How to reach the database and what to do there."""

    conninfo: dict[str, str]
    listen: dict[str, str] | None
    """The way for notifications, where it is another one."""
    where: str
    """The address for messages."""
    mode: Mode
    bound: Bound
    table: str
    schema: str
    patience: float
    pool: int
    push: bool


def read_settings(address: Address) -> Settings:
    """All that a URL says."""
    options = address.options
    conninfo = _conninfo(address)
    listen = options.get("listen")
    return Settings(
        conninfo=conninfo,
        listen={**conninfo, "host": str(listen).rpartition(":")[0], "port": _port(listen)}
        if listen
        else None,
        where=address.public,
        mode=options.get("mode", "lease"),  # type: ignore[arg-type]  # read by read_mode
        bound=options.get("bound", "session"),  # type: ignore[arg-type]
        table=str(options.get("table", "fencelock")),
        schema=str(options.get("schema", SCHEMA)),
        patience=float(str(options.get("patience", 5.0))),
        pool=int(float(str(options.get("pool", 8)))),
        push=bool(options.get("push", True)),
    )


def _conninfo(address: Address) -> dict[str, str]:
    host, port = address.options.get("host"), address.options.get("port")
    port = None if port is None else f"{float(str(port)):.0f}"
    if address.hosts and (host or port):
        raise Misconfigured("the server is named twice: before the database, and by host= or port=")
    words = {
        "host": str(host or ",".join(_host(name) for name, _ in address.hosts)),
        "port": str(port or ",".join(str(port or 5432) for _, port in address.hosts)),
        "dbname": address.path.strip("/"),
        "user": address.user or "",
        "password": address.password or "",
        "connect_timeout": f"{max(2.0, float(str(address.options.get('patience', 5.0)))):.0f}",
        "application_name": "fencelock",
        "client_encoding": "UTF8",
        # A peer that has vanished is noticed by the kernel, whatever the server's settings are.
        "keepalives_idle": "5",
        "keepalives_interval": "2",
        "keepalives_count": "3",
        "tcp_user_timeout": "15000",
    }
    if len(address.hosts) > 1:
        words["target_session_attrs"] = "read-write"  # the primary, wherever it is now
    words |= {name: str(address.options[name]) for name in _PASSED_ON if name in address.options}
    return {name: value for name, value in words.items() if value}


def _host(name: str) -> str:
    """A host as libpq takes it; the folder of a socket is percent-encoded in a URL."""
    return name.strip("[]").replace("%2F", "/").replace("%2f", "/")


def _port(listen: object) -> str:
    return str(listen).rpartition(":")[2]


def _chosen(what: str, *words: str):  # type: ignore[no-untyped-def]
    def read(value: object) -> object:
        if value not in words:
            raise Misconfigured(f"{what} is one of {', '.join(words)}, not {value!r}")
        return value

    return read


def _number(what: str, low: float, high: float):  # type: ignore[no-untyped-def]
    def read(value: object) -> object:
        try:
            number = float(str(value))
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise Misconfigured(f"{what} is a number from {low:g} to {high:g}, not {value!r}")
        return number

    return read


def _switch(value: object) -> bool:
    if value in (True, "yes", "true", "1", "on"):
        return True
    if value in (False, "no", "false", "0", "off"):
        return False
    raise Misconfigured(f"push is yes or no, not {value!r}")


def _listen(value: object) -> object:
    if not re.fullmatch(r"[^\s:@/]+:\d{1,5}", str(value)):
        raise Misconfigured(f"listen is written host:port, not {value!r}")
    return value


OPTIONS = {
    "host": str,
    "port": _number("port", 1, 65535),
    "mode": _chosen("mode", "lease", "advisory", "row"),
    "bound": _chosen("bound", "session", "transaction"),
    "table": check_identifier,
    "schema": check_identifier,
    "patience": _number("patience", 0.1, 600),
    "pool": _number("pool", 1, 100),
    "push": _switch,
    "listen": _listen,
    **dict.fromkeys(_PASSED_ON, str),
}
