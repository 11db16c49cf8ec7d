"""Read the options of a URL, and translate them to libpq's connection parameters."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

from ...engine import Address
from ...errors import Misconfigured
from ..options import (
    CONNECT_TIMEOUT_S,
    POOL,
    REQUEST_TIMEOUT_S,
    Reader,
    choice,
    common,
    switch,
    text,
    tls,
    whole,
)
from .statements import SCHEMA
from .tables import check_identifier

Mode: TypeAlias = Literal["lease", "advisory", "row"]
Bound: TypeAlias = Literal["session", "transaction"]

_TLS = {"ca": "sslrootcert", "cert": "sslcert", "key": "sslkey"}  # our names and libpq's
_PASSED_ON = (
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "application_name",
    "target_session_attrs",
)


class Settings(NamedTuple):
    """How to reach the database and what to do there."""

    conninfo: dict[str, str]
    listen: dict[str, str] | None
    """The connection parameters of the listener, where they differ."""
    where: str
    """The address that messages show."""
    mode: Mode
    bound: Bound
    table: str
    schema: str
    request_timeout: float
    pool: int
    push: bool


def read_settings(address: Address) -> Settings:
    """Return the settings of a URL."""
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
        request_timeout=float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
        pool=int(str(options.get("pool", POOL))),
        push=bool(options.get("push", True)),
    )


def _conninfo(address: Address) -> dict[str, str]:
    host, port = address.options.get("host"), address.options.get("port")
    if address.hosts and (host or port):
        raise Misconfigured("the server is named twice: before the database, and by host= or port=")
    words = {
        "host": str(host or ",".join(_host(name) for name, _ in address.hosts)),
        "port": str(port or ",".join(str(port or 5432) for _, port in address.hosts)),
        "dbname": address.path.strip("/"),
        "user": address.user or "",
        "password": address.password or "",
        "connect_timeout": _connect_timeout(address),
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
    words |= _tls_words(address)
    words |= {name: str(address.options[name]) for name in _PASSED_ON if name in address.options}
    return {name: value for name, value in words.items() if value}


def _tls_words(address: Address) -> dict[str, str]:
    """Translate the TLS options that all engines share to libpq's parameters."""
    options = address.options
    files = tls(options)
    if files is None:
        return {"sslmode": "disable"} if options.get("tls") is False else {}
    for name, theirs in {**_TLS, "tls": "sslmode"}.items():
        if options.get(name) is not None and theirs in options:
            raise Misconfigured(f"{name}= and {theirs}= mean the same: leave one out")
    words = {_TLS[name]: path for name, path in files._asdict().items() if path is not None}
    return {"sslmode": "verify-full", "sslrootcert": "system", **words}


def _connect_timeout(address: Address) -> str:
    """Return the timeout in whole seconds; libpq waits for two at least."""
    given = address.options.get("connect_timeout", CONNECT_TIMEOUT_S)
    return f"{max(2.0, float(str(given))):.0f}"


def _host(name: str) -> str:
    """Return a host as libpq takes it; a socket directory is percent-encoded in a URL."""
    return name.strip("[]").replace("%2F", "/").replace("%2f", "/")


def _port(listen: object) -> str:
    return str(listen).rpartition(":")[2]


def _listen(value: object) -> object:
    if not re.fullmatch(r"[^\s:@/]+:\d{1,5}", str(value)):
        raise Misconfigured(f"listen is written host:port, not {value!r}")
    return value


OPTIONS: dict[str, Reader] = {
    "host": str,
    "port": whole("port", 1, 65535),
    "mode": choice("mode", "lease", "advisory", "row"),
    "bound": choice("bound", "session", "transaction"),
    "table": check_identifier,
    "schema": check_identifier,
    "push": switch("push"),
    "listen": _listen,
    **{name: text(name) for name in _PASSED_ON},
    **common("request_timeout", "connect_timeout", "pool", "tls", "ca", "cert", "key"),
}
