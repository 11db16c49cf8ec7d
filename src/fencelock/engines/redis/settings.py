"""Read from a URL how to reach the servers, and check it before any connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ...engine import Address
from ...errors import Misconfigured
from ..options import REQUEST_TIMEOUT_S, Reader, common, switch, text, tls, whole

PORT = 6379
SENTINEL_PORT = 26379

Layout: TypeAlias = Literal["one", "sentinel", "cluster"]
Node: TypeAlias = tuple[str, int]


def where(node: Node) -> str:
    """Name a server in a message."""
    return f"{node[0]}:{node[1]}"


class Settings(NamedTuple):
    """How to reach the servers of one client."""

    topology: Layout
    nodes: tuple[Node, ...]
    service: str
    """The name under which Sentinel knows the primary."""
    prefix: str
    request_timeout: float
    replicas: int
    connection: Mapping[str, Any]
    """The arguments of redis-py's connections."""
    sentinel: Mapping[str, Any]
    """The arguments of connections to a sentinel."""


OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout", "tls", "ca", "cert", "key"),
    "replicas": whole("replicas", 0, 100),
    "verify": switch("verify"),
    "sentinel_user": text("sentinel_user"),
    "sentinel_password": text("sentinel_password"),
}


def settings(address: Address) -> Settings:
    """Read the address of a redis engine."""
    options = address.options
    topology = _topology(address)
    request_timeout = float(str(options.get("request_timeout", REQUEST_TIMEOUT_S)))
    connection = {
        "socket_timeout": request_timeout,
        "socket_connect_timeout": request_timeout,
        "protocol": 2,
        "socket_keepalive": True,
    }
    connection |= _tls(address)
    login = {"username": address.user, "password": address.password}
    sentinel = {
        "username": options.get("sentinel_user"),
        "password": options.get("sentinel_password"),
    }
    port = SENTINEL_PORT if topology == "sentinel" else PORT
    return Settings(
        topology,
        tuple((host.strip("[]"), number or port) for host, number in address.hosts)
        or (("127.0.0.1", port),),
        _service(address) if topology == "sentinel" else "",
        str(options.get("prefix", "")),
        request_timeout,
        int(str(options.get("replicas", 0))),
        {**connection, **login, "db": _database(address, topology)},
        {**connection, **sentinel},
    )


def _topology(address: Address) -> Layout:
    if "sentinel" in address.scheme:
        return "sentinel"
    if "cluster" in address.scheme:
        return "cluster"
    if len(address.hosts) > 1:
        raise Misconfigured(
            f"{address.public} names several servers: write redis+sentinel:// or redis+cluster:// "
            "if they belong together, redlock:// if they are independent"
        )
    return "one"


def _service(address: Address) -> str:
    service = address.path.strip("/").partition("/")[0]
    if not service:
        raise Misconfigured(
            f"{address.public} does not say which primary Sentinel should name: "
            "write redis+sentinel://host1,host2,host3/service"
        )
    return service


def _database(address: Address, topology: Layout) -> str | int:
    """Return the number as text, because hiredis packs it; 0, the default, needs no SELECT."""
    parts = address.path.strip("/").split("/")
    text = parts[1] if topology == "sentinel" and len(parts) > 1 else parts[0]
    if topology == "sentinel" and len(parts) == 1:
        text = ""
    if text and not (text.isascii() and text.isdigit()):
        raise Misconfigured(f"{text!r} is no number of a database: write redis://host:6379/0")
    if topology == "cluster" and text not in ("", "0"):
        raise Misconfigured("a cluster has database 0 only: leave the number away")
    return str(int(text)) if int(text or 0) else 0


def _tls(address: Address) -> dict[str, Any]:
    files = tls(address.options, implied=address.scheme == "rediss")
    if files is None:
        if "verify" in address.options:
            raise Misconfigured("verify= is for TLS: write rediss:// or tls=yes")
        return {}
    verify = bool(address.options.get("verify", True))
    return {
        "ssl_ca_certs": files.ca,
        "ssl_certfile": files.cert,
        "ssl_keyfile": files.key,
        "ssl_cert_reqs": "required" if verify else "none",
        "ssl_check_hostname": verify,
    }
