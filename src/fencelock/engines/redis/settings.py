"""What a URL says about how to reach the server, read once and checked before any connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ...engine import Address
from ...errors import Misconfigured

PORT = 6379
SENTINEL_PORT = 26379

Topology: TypeAlias = Literal["one", "sentinel", "cluster"]
Node: TypeAlias = tuple[str, int]


class Settings(NamedTuple):
    """How to reach the servers of one client."""

    topology: Topology
    nodes: tuple[Node, ...]
    service: str
    """The name under which Sentinel knows the primary."""
    prefix: str
    patience: float
    replicas: int
    connection: Mapping[str, Any]
    """What redis-py's connections are made with."""
    sentinel: Mapping[str, Any]
    """The same for connections to a sentinel."""


def read_number(text: object, option: str, low: float, high: float) -> float:
    try:
        number = float(str(text))
    except ValueError:
        number = -1.0
    if not low <= number <= high:
        raise Misconfigured(f"{option} must be a number from {low:g} to {high:g}, not {text!r}")
    return number


def _number(option: str, low: float, high: float) -> Callable[[object], float]:
    return lambda text: read_number(text, option, low, high)


def _text(option: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if not isinstance(value, str) or not value:
            raise Misconfigured(f"{option} must be a text that is not empty, not {value!r}")
        return value

    return read


def _prefix(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise Misconfigured(f"prefix must be a printable text, not {value!r}")
    return value


def _switch(option: str) -> Callable[[object], bool]:
    known = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}

    def read(value: object) -> bool:
        if str(value).lower() not in known:
            raise Misconfigured(f"{option} must be yes or no, not {value!r}")
        return known[str(value).lower()]

    return read


OPTIONS: dict[str, Callable[[object], object]] = {
    "prefix": _prefix,
    "patience": _number("patience", 0.01, 600.0),
    "replicas": lambda value: int(read_number(value, "replicas", 0, 100)),
    "tls": _switch("tls"),
    "ca": _text("ca"),
    "cert": _text("cert"),
    "key": _text("key"),
    "verify": _switch("verify"),
    "sentinel_user": _text("sentinel_user"),
    "sentinel_password": _text("sentinel_password"),
}


def settings(address: Address) -> Settings:
    """Read the address of a redis engine."""
    options = address.options
    topology = _topology(address)
    patience = float(str(options.get("patience", 3.0)))
    link = {"socket_timeout": patience, "socket_connect_timeout": patience, "protocol": 2}
    link |= _tls(address)
    login = {"username": address.user, "password": address.password}
    watch = {
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
        patience,
        int(str(options.get("replicas", 0))),
        {**link, **login, "db": _database(address, topology)},
        {**link, **watch},
    )


def _topology(address: Address) -> Topology:
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


def _database(address: Address, topology: Topology) -> str | int:
    """As text, because hiredis packs it; 0 is where a connection begins, and is not asked for."""
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
    options = address.options
    given = {"ca", "cert", "key", "verify"} & set(options)
    if not options.get("tls", address.scheme == "rediss"):
        if given:
            raise Misconfigured(f"{', '.join(sorted(given))} need TLS: write rediss:// or tls=yes")
        return {}
    verify = bool(options.get("verify", True))
    return {
        "ssl_ca_certs": options.get("ca"),
        "ssl_certfile": options.get("cert"),
        "ssl_keyfile": options.get("key"),
        "ssl_cert_reqs": "required" if verify else "none",
        "ssl_check_hostname": verify,
    }
