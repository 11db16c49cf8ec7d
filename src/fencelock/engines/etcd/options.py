"""The address of a cluster and its options, read and checked."""

from __future__ import annotations

from ...engine import Address
from ...errors import Misconfigured
from ...wires.grpc.tls import Tls

PORT = 2379


def read_patience(value: object) -> float:
    """How long to wait for an answer, in seconds, over all members that are tried."""
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = -1.0
    if not 0.5 <= seconds <= 600:
        raise Misconfigured(f"patience must be 0.5 to 600 seconds, not {value!r}")
    return seconds


def read_switch(value: object) -> bool:
    """A yes or no from a URL."""
    if value in (True, "yes", "true", "on", "1"):
        return True
    if value in (False, "no", "false", "off", "0"):
        return False
    raise Misconfigured(f"a switch is yes or no, not {value!r}")


def read_path(value: object) -> str:
    """A file in PEM format."""
    if not isinstance(value, str) or not value:
        raise Misconfigured(f"the path of a file is a text, not {value!r}")
    return value


def read_prefix(value: object) -> str:
    """What all keys begin with."""
    if not isinstance(value, str) or not value.isprintable():
        raise Misconfigured(f"prefix is a text without control characters, not {value!r:.80}")
    return value


OPTIONS = {
    "prefix": read_prefix,
    "patience": read_patience,
    "tls": read_switch,
    "ca": read_path,
    "cert": read_path,
    "key": read_path,
}


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
    files = {name: address.options.get(name) for name in ("ca", "cert", "key")}
    given = {name: str(path) for name, path in files.items() if path is not None}
    if address.options.get("tls", bool(given)):
        return Tls(**given)
    if given:
        raise Misconfigured("tls=no and files for TLS contradict each other: leave one out")
    return None
