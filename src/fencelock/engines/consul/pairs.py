"""The keys and values of locks, and the operations of a transaction that change them.

A key that is held has a session. Its flags are those of HashiCorp's client, which takes a key with
any other for no lock. The value is ours: JSON with the owner, its ttl, when it came and who it is.

A key is the name behind the prefix, as it is wherever the path of a request can carry it. That
cannot have empty segments, ``.`` and ``..``, nor characters that Consul takes for unprintable, such
as those of a later Unicode than its own: they are percent-encoded, and so is ``%``.
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
CONTENDER_FLAGS = 0xE0F69A2BAA414DE0  # of a part in its semaphores
REVOKED = "%revoked/"  # no escaped name has this

Operation: TypeAlias = dict[str, dict[str, Any]]
_EMPTY = re.compile(r"(?<=/)/|^/")
_DOTS = re.compile(r"(?:(?<=/)|^)\.\.?(?=/|$)")


class Pair(NamedTuple):
    """One key as it was read."""

    key: str
    modify_index: int
    session: str  # empty where nobody holds it
    is_lock: bool  # it was acquired before, or is marked as one: else it is somebody's data
    is_contender: bool
    owner: str  # empty where it is another program's
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
    """The members of a value that is a JSON object; none of any other."""
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
        """What the keys of all names with a prefix begin with; those of others may, too."""
        whole = self._prefix + prefix
        return _escaped(whole[: whole.rfind("/") + 1])

    def name(self, key: str) -> str:
        """The name whose key this is, if there is one."""
        name = unquote(key).removeprefix(self._prefix)
        return name if name and self.of(name) == key else ""

    def revocation(self, owner: str) -> str:
        """Where an owner finds why its lock was revoked. Nobody learns from it who that is."""
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
    """See that a key is as free as it was when it was read."""
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
    """The value of a key that is acquired. Meta is JSON already."""
    told = json.dumps({"owner": request.owner, "ttl_ms": round(ttl * 1000), "since": wall_us})
    return f'{told[:-1]}, "meta": {request.meta}}}'


def moved(found: Pair, ttl: float) -> str:
    """The value of a key that gets another session, and keeps its fence."""
    told = {"owner": found.owner, "ttl_ms": round(ttl * 1000), "since": found.since_us}
    return json.dumps({**told, "fence": found.fence, "meta": found.meta})
