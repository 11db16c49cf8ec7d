"""The scripts that a guard of either flavor sends, as values: source, keys and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from inspect import iscoroutinefunction
from typing import Any, NamedTuple, TypedDict

from ...errors import UsageError
from ..fence import MARK_DIGITS, Claim, Fenced, MarkPair, claim
from .script import (
    ENTER,
    GET,
    SET,
    Script,
    checked_prefix,
    checked_ttl,
    guarded,
    key_of,
    pattern,
    setting,
)

PREFIX = "fencelock:mark:"


class ScriptCall(NamedTuple):
    """One guarded script, ready to be sent."""

    claim: Claim
    script: Script
    keys: list[Any]
    arguments: list[Any]


class SetOptions(TypedDict, total=False):
    """The options of ``set``, as in redis-py."""

    ex: int | timedelta | None
    px: int | timedelta | None
    nx: bool
    xx: bool
    keepttl: bool


class ScriptCalls:
    """What both flavors share: the keys of the marks, and the script of each operation."""

    def __init__(
        self, client: object, awaited: bool, prefix: str, epoch: int, marks_ttl: float | None
    ) -> None:
        claim(1, "any", epoch)  # raises if the epoch is invalid
        _check_client(client, awaited)
        self._prefix = checked_prefix(prefix)
        self.epoch = epoch
        self._ttl = checked_ttl(marks_ttl)

    def _script_call(
        self, body: str, keys: Sequence[Any], arguments: Sequence[Any], theirs: Claim
    ) -> ScriptCall:
        mark = str(theirs.mark).zfill(MARK_DIGITS)
        return ScriptCall(
            theirs,
            guarded(body, theirs.reading),
            [*keys, key_of(self._prefix, theirs.name)],
            [*arguments, self._ttl, mark],
        )

    def _claim(self, lease: Fenced | int, name: str | None, reading: bool = False) -> Claim:
        return claim(lease, name, self.epoch, reading, "redis")

    def _enter(self, theirs: Claim) -> ScriptCall:
        return self._script_call(ENTER, (), (), theirs)

    def _get(self, key: Any, theirs: Claim) -> ScriptCall:
        return self._script_call(GET, (key,), (), theirs)

    def _set(
        self,
        key: Any,
        value: Any,
        theirs: Claim,
        ex: int | timedelta | None = None,
        px: int | timedelta | None = None,
        nx: bool = False,
        xx: bool = False,
        keepttl: bool = False,
    ) -> ScriptCall:
        if ex is None and px is None and not (nx or xx or keepttl):
            return self._script_call(SET, (key,), (value,), theirs.to_write())
        if (ex is not None) + (px is not None) + keepttl > 1 or (nx and xx):
            raise UsageError("of ex, px and keepttl only one may be given, and of nx and xx")
        more: list[Any] = []
        if ex is not None:
            more += ["EX", int(ex.total_seconds()) if isinstance(ex, timedelta) else ex]
        if px is not None:
            more += ["PX", int(px / timedelta(milliseconds=1)) if isinstance(px, timedelta) else px]
        flags = {"KEEPTTL": keepttl, "NX": nx, "XX": xx}
        more += [flag for flag, wanted in flags.items() if wanted]
        return self._script_call(SET, (key,), (value, *more), theirs.to_write())

    def _eval(
        self, script: str, keys: Sequence[Any], args: Sequence[Any], theirs: Claim
    ) -> ScriptCall:
        for given in (keys, args):
            if isinstance(given, (str, bytes)):
                raise UsageError(f"keys and args are lists, not one text: {given!r}")
        return self._script_call(script, keys, args, theirs)

    def _reset(self, name: str, to: int) -> ScriptCall:
        theirs = claim(to if to != 0 else 1, name, self.epoch)
        mark = str(theirs.mark).zfill(MARK_DIGITS) if to != 0 else "0"
        key = key_of(self._prefix, name)
        return ScriptCall(theirs, setting(), [key], [mark, self._ttl])

    def _key(self, name: str) -> str:
        return key_of(self._prefix, claim(1, name).name)

    def _pattern(self) -> str:
        return pattern(self._prefix)


def marks(reply: str | bytes | None) -> MarkPair:
    """Parse a stored mark: the highest, when it was raised, and the writers' if that is below."""
    if reply is None:
        return MarkPair()
    words = reply.split()
    return MarkPair(int(words[0]), int(words[2 if len(words) > 2 else 0]))


def _check_client(client: object, awaited: bool) -> None:
    """Raise UsageError if a client is of the other flavor, or no client of redis-py."""
    command = getattr(client, "execute_command", None)
    if command is None or iscoroutinefunction(command) is not awaited:
        guard, home = ("AsyncRedisGuard", "redis.asyncio") if awaited else ("RedisGuard", "redis")
        given = (
            f"{type(client).__module__}.{type(client).__qualname__}"  # a URL may have a password
        )
        raise UsageError(
            f"{guard} takes a client of {home}, such as {home}.Redis.from_url(...), not a {given}"
        )
