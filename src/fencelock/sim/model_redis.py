"""A model of one Redis server: the keys, their times to live, and the very scripts of the package.

The scripts are run unchanged; only the commands they call are modelled, and of those only what the
scripts use. That is done in Lua (`model_redis.lua`), where the scripts are. The clock is handed in.
What the model answers is held against a real server by `tests/sim/test_models.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from hiredis import ReplyError

from . import lua


class Sight:
    """What somebody saw who looked into a server: who has the lock and until when, by the server's
    clock; who stands in the queue; and from whom the lock was taken away."""

    __slots__ = ("owner", "queue", "revoked", "until_us")

    def __init__(self) -> None:
        self.owner = ""
        self.until_us = math.inf
        self.queue: Sequence[str] = ()
        self.revoked: Sequence[str] = ()


Command: TypeAlias = tuple[bytes, bytes, lua.Script | None, Sequence[Any]]
"""Its first word; the digest of the script that it is about, if it is about one; what runs it, or
None for a script that a server knows already, or does not; and the words for that."""


def understood(words: Sequence[Any]) -> Command:
    """What the words of a request mean: the same for every server that is sent them."""
    kind = words[0].upper()
    if kind == b"EVALSHA":
        return kind, words[1], None, (int(words[2]), *words[3:])
    if kind == b"EVAL":
        return kind, *lua.learn(words[1]), (int(words[2]), *words[3:])
    if kind == b"SCRIPT":
        return kind, *lua.learn(words[2]), ()
    if kind == b"SET":  # its options, as its name, may be written in any case
        words = [kind, *words[1:3], *(word.upper() for word in words[3:])]
    return kind, b"", lua.ask, words


class ModelRedis:
    """The data of a server, and how it answers commands."""

    def __init__(self, clock_us: Callable[[], float]) -> None:
        self.clock_us = clock_us
        self.publish: Callable[[bytes, bytes | None], int] = lambda channel, message: 0
        """Hands a message, if there is one, to those who listen, and says how many they are."""
        self.forget()

    def forget(self) -> None:
        """Restart without memory."""
        self._data = lua.new()
        self._scripts: dict[bytes, lua.Script] = {}
        self.is_new = True
        """Something may have been written since somebody looked."""
        self.sight = Sight()
        """As it was when somebody looked last."""

    def execute(self, words: Sequence[Any]) -> Any:
        """The reply to a command, as hiredis would give it."""
        return self.serve(understood(words), self.clock_us())

    def serve(self, command: Command, now_us: float) -> Any:
        """The same for a command that is understood already, at this moment."""
        kind, digest, script, words = command
        if script is None:
            script = self._scripts.get(digest)
            if script is None:
                return ReplyError("NOSCRIPT No matching script. Please use EVAL.")
        elif digest:
            self._scripts[digest] = script
            if kind == b"SCRIPT":
                return digest
        lua.asked.publish = self.publish
        try:
            reply = script(self._data, now_us, *words)
        except lua.LuaError as error:
            self.is_new = True
            return ReplyError(lua.refused(error))
        if type(reply) is not tuple:
            return reply
        sum, *values = cast("Any", reply)
        if sum & 1:
            self.is_new = True
        if sum < 4:
            return values if sum & 2 else values[0]
        return [lua.plain(one) for one in values] if sum < 8 else []

    def look(self, lock: bytes, queue: bytes, revoked: bytes, other: Sight | None = None) -> bool:
        """See what is kept, as no client does; False if nothing was written since the last time.

        Who looks at another lock besides has a sight of its own, and sees it each time.
        """
        self.is_new = False
        seen = lua.look(self._data, lock, queue, revoked, other is not None)
        if seen is None:
            return False
        sight = other or self.sight
        owner, until_ms, count, *there = seen
        sight.owner = owner.decode() if owner else ""
        sight.until_us = math.inf if until_ms is None else 1000 * (until_ms + 1)
        names = [one.decode() for one in there] if there else ()
        sight.queue, sight.revoked = names[:count], names[count:]
        return True
