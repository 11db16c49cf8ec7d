"""The proxies between one client and the engine, where there is a network.

A fault must cut off one client only, so each has a proxy for every host of the URL. Where no proxy
is possible, the reason is given as text: the faults of the network do not apply.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Self

from ...engine import Address
from .proxy import Proxy

PORTS = {
    "redis": 6379,
    "valkey": 6379,
    "redlock": 6379,
    "postgresql": 5432,
    "mysql": 3306,
    "mariadb": 3306,
    "etcd": 2379,
    "zookeeper": 2181,
    "http": 80,
}
TLS = {"rediss", "https"}
CHECKS_NAMES = {"tls", "ca", "cert", "ssl", "sslrootcert", "sslmode"}
HARMLESS = {"no", "off", "false", "0", "disable", "allow", "prefer", "require"}


def why_not(address: Address) -> str:
    """Return why no proxy can stand between a client and this engine, or an empty string."""
    scheme = address.scheme
    if scheme in ("memory", "sqlite"):
        return f"{scheme} is reached without a network"
    if "+" in scheme:
        return f"{scheme} tells its clients other addresses, which lead past a proxy"
    if scheme not in PORTS and scheme not in TLS:
        return f"the protocol of {scheme} is not known"
    if scheme in TLS or any(
        key in CHECKS_NAMES and str(value).lower() not in HARMLESS
        for key, value in address.options.items()
    ):
        return "TLS checks the name of the server, which a proxy does not have"
    if not address.hosts:
        return "the URL names no host"
    return ""


def detour(url: str, addresses: Sequence[str]) -> str:
    """Return the same URL with other hosts."""
    scheme, _, rest = url.partition("://")
    head, query, options = rest.partition("?")
    netloc, slash, path = head.partition("/")
    credentials, at, _ = netloc.rpartition("@")
    return f"{scheme}://{credentials}{at}{','.join(addresses)}{slash}{path}{query}{options}"


class Network:
    """The proxies of one client."""

    def __init__(self, url: str, address: Address) -> None:
        port = PORTS[address.scheme]
        self._proxies = [Proxy(number or port, host.strip("[]")) for host, number in address.hosts]
        self.url = detour(url, [proxy.address for proxy in self._proxies])

    def __enter__(self) -> Self:
        for proxy in self._proxies:
            proxy.start()
        return self

    def __exit__(self, *error: object) -> None:
        for proxy in self._proxies:
            proxy.close()

    def part(self, silently: bool) -> None:
        """Cut the client off: bytes are held back, or connections are reset and refused."""
        for proxy in self._proxies:
            proxy.block() if silently else proxy.cut()

    def lose(self, chance: random.Random) -> None:
        """Lose the next reply of one server, with its connection."""
        chance.choice(self._proxies).lose_next_reply()

    def heal(self) -> None:
        for proxy in self._proxies:
            proxy.heal()

    @property
    def lost(self) -> int:
        """How many replies were dropped so far."""
        return sum(proxy.lost for proxy in self._proxies)
