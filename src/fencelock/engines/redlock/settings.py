"""Read a ``redlock://`` URL, and check it before any connection."""

from __future__ import annotations

from ...engine import Address
from ...errors import Misconfigured
from ..options import Reader, seconds, switch
from ..redis.settings import OPTIONS as REDIS_OPTIONS
from ..redis.settings import Settings, settings

NODE_TIMEOUT_S = 0.5  # for one reply of one node: far less than a ttl
CONNECT_S = 3.0  # to connect, do TLS and authenticate, in the background
SHARED = ("prefix", "tls", "ca", "cert", "key", "verify")


OPTIONS: dict[str, Reader] = {
    **{option: REDIS_OPTIONS[option] for option in SHARED},
    "node_timeout": seconds("node_timeout"),
    "fence": switch("fence"),
}


def read(address: Address) -> tuple[Settings, bool]:
    """Return how to reach the nodes, and whether grants have fences."""
    if not address.hosts:
        raise Misconfigured("redlock:// names no node: write redlock://host1,host2,host3")
    options = {"request_timeout": NODE_TIMEOUT_S, **address.options}
    if "node_timeout" in options:
        options["request_timeout"] = options.pop("node_timeout")
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
