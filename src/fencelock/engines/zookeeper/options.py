"""The options of the engine: how each is read, and what follows from the address."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...engine import Address
from ...errors import Misconfigured
from . import paths, requests

DEFAULT_ROOT = "/fencelock"
SESSION_MIN_S, SESSION_MAX_S = 0.4, 3600.0
ACLS: dict[str, requests.Acl] = {
    "open": requests.OPEN,
    "creator": requests.CREATOR,
    "readable": requests.CREATOR_AND_READERS,
}
RECIPES = ("kazoo", "curator")


def root(address: Address) -> str:
    """The folder of all locks: the path of the URL, ``/fencelock`` where there is none."""
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


def acl(address: Address) -> requests.Acl:
    """Who may do what with our nodes: their creator alone, where we have a name."""
    chosen = str(address.options.get("acl", "creator" if address.user else "open"))
    if chosen != "open" and not address.user:
        raise Misconfigured(
            f"acl={chosen} needs a user: write zookeeper://user:password@host:port/root"
        )
    return ACLS[chosen]


def read_session(value: object) -> float:
    """The session timeout to ask for, in seconds."""
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = -1.0
    if isinstance(value, bool) or not SESSION_MIN_S <= seconds <= SESSION_MAX_S:
        raise Misconfigured(
            f"session must be {SESSION_MIN_S:g} to {SESSION_MAX_S:g} seconds, not {value!r}: "
            "a dead client keeps its locks for so long"
        )
    return seconds


def _one_of(option: str, known: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in known:
            raise Misconfigured(f"{option} is one of {', '.join(known)}, not {value!r}")
        return str(value)

    return read


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("yes", "true", "1", "on", "no", "false", "0", "off"):
        return str(value).lower() in ("yes", "true", "1", "on")
    raise Misconfigured(f"tls is yes or no, not {value!r}")


def _file(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise Misconfigured(f"ca, cert and key name files, not {value!r}")
    return value


READERS: Mapping[str, Callable[[object], object]] = {
    "session": read_session,
    "acl": _one_of("acl", tuple(ACLS)),
    "recipe": _one_of("recipe", RECIPES),
    "tls": _switch,
    "ca": _file,
    "cert": _file,
    "key": _file,
}
