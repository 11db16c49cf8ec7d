"""The keys and values of locks, and the operations of a transaction that change them.

A key that is held has a session. Its flags are those of HashiCorp's client, which takes a key with
other flags for something else than a lock. The value is ours: JSON with the owner, the ttl, the
time of the acquire and the meta.

A key is the prefix and the name, unchanged if the path of a request can carry them. A path cannot
have empty segments, ``.`` and ``..``, nor characters that Consul takes for unprintable, such as
those of a later Unicode than its own: they are percent-encoded, and so is ``%``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias, cast
from unicodedata import ucd_3_2_0 as unicode
from urllib.parse import quote, unquote

from ...model import Meta, Request

FLAGS = 0x2DDCCBC058A50C18  # of every lock of HashiCorp's client
CONTENDER_FLAGS = 0xE0F69A2BAA414DE0  # of a contender's key in its semaphores
REVOKED = "%revoked/"  # no escaped name contains this

Operation: TypeAlias = dict[str, dict[str, Any]]
_EMPTY = re.compile(r"(?<=/)/|^/")
_DOTS = re.compile(r"(?:(?<=/)|^)\.\.?(?=/|$)")


class Pair(NamedTuple):
    """One key, as read."""

    key: str
    modify_index: int
    session: str  # empty if it is not held
    is_lock: bool  # it was acquired before, or has a lock's flags: else it is other data
    is_contender: bool
    owner: str  # empty if it is another program's
    fence: int
    ttl: float
    since_us: int
    meta: Meta


def read_pair(found: Mapping[str, Any]) -> Pair:
    """Read a key, whose value may be another program's."""
    value, flags = read_value(found), found.get("Flags")
    meta, index = value.get("meta"), int(found["ModifyIndex"])
    return Pair(
        str(found["Key"]),
        index,
        str(found.get("Session") or ""),
        flags == FLAGS or int(found.get("LockIndex", 0)) > 0,
        flags == CONTENDER_FLAGS,
        str(value.get("owner", "")),
        _whole(value.get("fence")) or index,
        _whole(value.get("ttl_ms")) / 1000,
        _whole(value.get("since")),
        cast("Meta", meta) if isinstance(meta, dict) else {},
    )


def read_value(found: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the value of a key, a JSON object; empty for any other value."""
    try:
        value: object = json.loads(base64.b64decode(str(found.get("Value") or "")))
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _whole(found: object) -> int:
    return found if isinstance(found, int) and found > 0 else 0


class Keys:
    """The keys of one client."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def of(self, name: str) -> str:
        return _escaped(self._prefix + name)

    def below(self, prefix: str) -> str:
        """Return the start of the keys of all names with a prefix; other keys may have it, too."""
        whole = self._prefix + prefix
        return _escaped(whole[: whole.rfind("/") + 1])

    def name(self, key: str) -> str:
        """Return the name whose key this is; empty if there is none."""
        name = unquote(key).removeprefix(self._prefix)
        return name if name and self.of(name) == key else ""

    def revocation(self, owner: str) -> str:
        """Return the key of the reason of a revocation, by a hash: the owner id stays secret."""
        named = hashlib.sha256(owner.encode()).hexdigest()[:32]
        return f"{self.below('')}{REVOKED}{named}"


def _escaped(text: str) -> str:
    text = text.replace("%", "%25")
    if not text.isascii():
        text = "".join(
            c if unicode.category(c)[0] in "LMNPS" or c == " " else quote(c) for c in text
        )
    return _DOTS.sub(lambda found: found[0].replace(".", "%2E"), _EMPTY.sub("%2F", text))


def path_of(key: str) -> str:
    return f"/v1/kv/{quote(key, safe='/')}"


# The operations of a transaction


def unchanged(key: str, index: int) -> Operation:
    return {"KV": {"Verb": "check-index", "Key": key, "Index": index}}


def free(key: str, found: Pair | None) -> Operation:
    """Check that a key has not changed since it was read as free."""
    if found is None:
        return {"KV": {"Verb": "check-not-exists", "Key": key}}
    return unchanged(key, found.modify_index)


def lock(key: str, session: str, value: str) -> Operation:
    """Acquire a key, as ``PUT /v1/kv/key?acquire=session`` does."""
    encoded = base64.b64encode(value.encode()).decode()
    wanted = {"Verb": "lock", "Key": key, "Session": session, "Value": encoded, "Flags": FLAGS}
    return {"KV": wanted}


def unlock(found: Pair) -> Operation:
    return {"KV": {"Verb": "unlock", "Key": found.key, "Session": found.session, "Flags": FLAGS}}


def delete(key: str) -> Operation:
    return {"KV": {"Verb": "delete", "Key": key}}


def acquired(request: Request, ttl: float, wall_us: int) -> str:
    """Encode the value of a key that is acquired. Meta is JSON already."""
    told = json.dumps({"owner": request.owner, "ttl_ms": round(ttl * 1000), "since": wall_us})
    return f'{told[:-1]}, "meta": {request.meta}}}'


def moved(found: Pair, ttl: float) -> str:
    """Encode the value of a key that moves to another session, and keeps its fence."""
    told = {"owner": found.owner, "ttl_ms": round(ttl * 1000), "since": found.since_us}
    return json.dumps({**told, "fence": found.fence, "meta": found.meta})
