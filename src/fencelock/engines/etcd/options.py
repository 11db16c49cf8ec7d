"""The address of a cluster and its options, read and checked."""

from __future__ import annotations

from ...engine import Address
from ...errors import Misconfigured
from ...wires.grpc.tls import Tls
from ..options import common, tls

PORT = 2379


OPTIONS = common("prefix", "request_timeout", "tls", "ca", "cert", "key")


def members_of(address: Address) -> list[str]:
    """The members of the cluster, as ``host:port``."""
    if not address.hosts:
        raise Misconfigured("etcd:// needs a host: write etcd://host:2379 or etcd://h1,h2,h3")
    if address.path not in ("", "/"):
        raise Misconfigured(
            f"{address.public} has a path, and etcd has no databases: "
            "write ?prefix=... to have all keys begin with something"
        )
    return [f"{host}:{port or PORT}" for host, port in address.hosts]


def tls_of(address: Address) -> Tls | None:
    """The files for TLS, or None for plain text."""
    files = tls(address.options)
    return None if files is None else Tls(*files)
