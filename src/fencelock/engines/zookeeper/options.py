"""The options of the engine, and the readers of the address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...engine import Address
from ...errors import Misconfigured
from ..options import Reader, choice, common, seconds, tls
from . import paths
from .wire import Settings, messages

PORT = 2181
DEFAULT_ROOT = "/fencelock"
SESSION_S, SESSION_MIN_S, SESSION_MAX_S = 20.0, 0.4, 3600.0
ACLS: dict[str, messages.Acl] = {
    "open": messages.OPEN,
    "creator": messages.CREATOR,
    "readable": messages.CREATOR_AND_READERS,
}
RECIPES = ("kazoo", "curator")


def root(address: Address) -> str:
    """Read the root of all locks: the path of the URL, or ``/fencelock``."""
    if not address.path:
        return DEFAULT_ROOT
    parts = [part for part in address.path.split("/") if part]
    if any(part in (".", "..") or not part.isprintable() for part in parts):
        raise Misconfigured(f"the root {address.path!r} is no path of ZooKeeper: write /a/b")
    if any(paths.sequence(part) is not None for part in parts) or parts[:1] == [paths.SYSTEM]:
        raise Misconfigured(
            f"the root {address.path!r} has the name of a contender or lies in the server's own "
            "folder: others would take it for a lock that is held. Choose another"
        )
    return "".join(f"/{part}" for part in parts)


def acl(address: Address) -> messages.Acl:
    """Read the ACL of our nodes; by default their creator alone if the URL names a user."""
    chosen = str(address.options.get("acl", "creator" if address.user else "open"))
    if chosen != "open" and not address.user:
        raise Misconfigured(
            f"acl={chosen} needs a user: write zookeeper://user:password@host:port/root"
        )
    return ACLS[chosen]


def connection(address: Address) -> Settings:
    """Read the settings of the connection."""
    options: Any = address.options
    if not address.hosts:
        raise Misconfigured(f"{address.public} names no server: write zookeeper://host:port/root")
    credential = f"{address.user}:{address.password or ''}"
    return Settings(
        hosts=tuple((host.strip("[]"), port or PORT) for host, port in address.hosts),
        session_s=options.get("session", SESSION_S),
        credentials=(("digest", credential),) if address.user else (),
        tls=tls(options),
    )


READERS: Mapping[str, Reader] = {
    **common("tls", "ca", "cert", "key"),
    "session": seconds("session", SESSION_MIN_S, SESSION_MAX_S),
    "acl": choice("acl", *ACLS),
    "recipe": choice("recipe", *RECIPES),
}
