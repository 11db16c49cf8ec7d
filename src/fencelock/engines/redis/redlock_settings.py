"""What a ``redlock://`` URL says, read once and checked before any connection."""

from __future__ import annotations

from collections.abc import Callable

from ...engine import Address
from ...errors import Misconfigured
from .settings import OPTIONS as REDIS_OPTIONS
from .settings import Settings, settings

PATIENCE_S = 0.5  # for one node, one round: far less than a ttl
CONNECT_S = 3.0  # to connect, speak TLS and log in, which is done in the background
SHARED = ("prefix", "patience", "tls", "ca", "cert", "key", "verify")


def _fence(value: object) -> bool:
    known = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if str(value).lower() not in known:
        raise Misconfigured(f"fence must be yes or no, not {value!r}")
    return known[str(value).lower()]


OPTIONS: dict[str, Callable[[object], object]] = {
    **{option: REDIS_OPTIONS[option] for option in SHARED},
    "fence": _fence,
}


def read(address: Address) -> tuple[Settings, bool]:
    """How to reach the nodes, and whether grants carry fences."""
    if not address.hosts:
        raise Misconfigured("redlock:// names no node: write redlock://host1,host2,host3")
    options = {"patience": PATIENCE_S, **address.options}
    nodes = [
        settings(address._replace(scheme="redis", hosts=(host,), options=options))
        for host in address.hosts
    ]
    found = tuple(one.nodes[0] for one in nodes)
    twice = sorted({f"{host}:{port}" for host, port in found if found.count((host, port)) > 1})
    if twice:
        raise Misconfigured(
            f"{address.public} names {', '.join(twice)} more than once: each node has one vote"
        )
    limits = {"socket_timeout": CONNECT_S, "socket_connect_timeout": CONNECT_S}
    connection = {**nodes[0].connection, **limits}
    return nodes[0]._replace(nodes=found, connection=connection), bool(options.get("fence", True))
