"""Read the settings of the connections to the members, and the CP group, from a URL."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from ..options import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, Reader, TlsFiles, common, switch, tls

PORT = 5701
GROUP = "default"
METADATA = "metadata"  # Hazelcast keeps its own records there, and no locks
_GROUP = re.compile(r"[^@\s]([^@]*[^@\s])?")


def _read_group(value: object) -> str:
    if not isinstance(value, str) or not _GROUP.fullmatch(value) or value.lower() == METADATA:
        raise Misconfigured(
            f"group must be the name of a CP group, without @ and not {METADATA}, not {value!r:.80}"
        )
    return value


OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout", "connect_timeout", "tls", "ca", "cert", "key"),
    "group": _read_group,
    "smart_routing": switch("smart_routing"),
}


class Settings(NamedTuple):
    """The addresses of the members, and the options of the client."""

    members: tuple[str, ...]
    cluster: str
    group: str
    prefix: str
    login: tuple[str | None, str | None]
    tls: TlsFiles | None
    smart_routing: bool
    request_timeout: float
    connect_timeout: float

    def __repr__(self) -> str:
        return f"Settings({self.cluster!r} at {self.members!r})"


def read(address: Address) -> Settings:
    """Read an address whose options were checked."""
    options, where = address.options, address.public
    if not address.hosts:
        raise Misconfigured(f"{where} names no member: write hazelcast://host:{PORT}/cluster")
    cluster = address.path.strip("/")
    if not cluster or "/" in cluster:
        raise Misconfigured(
            f"{where} does not name one cluster: write hazelcast://host:{PORT}/cluster, where "
            "cluster is the cluster-name of the members' configuration (dev unless it was set)"
        )
    return Settings(
        tuple(f"{host}:{port or PORT}" for host, port in address.hosts),
        cluster,
        str(options.get("group", GROUP)),
        str(options.get("prefix", "")),
        (address.user, address.password),
        tls(options),
        bool(options.get("smart_routing", True)),
        float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
        float(str(options.get("connect_timeout", CONNECT_TIMEOUT_S))),
    )
