"""A model of one Redis server: the keys, their times to live, and the package's own scripts.

The scripts run unchanged; only the commands they call are modeled, and of those only what the
scripts use. The model is written in Lua (`model_redis.lua`), as the scripts are. The clock is an
argument. `tests/sim/test_models.py` compares the model's replies with a real server's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from hiredis import ReplyError

from . import lua


class LockSnapshot:
    """A snapshot of a lock in a server: its owner, until when the owner has it (microseconds on the
    server's clock), the owners in the queue, and the owners whose lease was revoked."""

    __slots__ = ("owner", "queue", "revoked", "until_us")

    def __init__(self) -> None:
        self.owner = ""
        self.until_us = math.inf
        self.queue: Sequence[str] = ()
        self.revoked: Sequence[str] = ()


Command: TypeAlias = tuple[bytes, bytes, lua.Script | None, Sequence[Any]]
"""The first word; the digest of the script, if the command names one; the function that runs it, or
None if the server has to look the digest up; and the arguments of that function."""


def understood(words: Sequence[Any]) -> Command:
    """Turn the words of a request into a command: the same for every server that receives them."""
    kind = words[0].upper()
    if kind == b"EVALSHA":
        return kind, words[1], None, (int(words[2]), *words[3:])
    if kind == b"EVAL":
        return kind, *lua.learn(words[1]), (int(words[2]), *words[3:])
    if kind == b"SCRIPT":
        return kind, *lua.learn(words[2]), ()
    if kind == b"SET":  # its options, as its name, may be written in any case
        words = [kind, *words[1:3], *(word.upper() for word in words[3:])]
    return kind, b"", lua.run_command, words


class ModelRedis:
    """The data of a server, and its replies to commands."""

    def __init__(self, clock_us: Callable[[], float]) -> None:
        self.clock_us = clock_us
        self.publish: Callable[[bytes, bytes | None], int] = lambda channel, message: 0
        """Sends a message, if there is one, to a channel's subscribers, and returns how many there
        are."""
        self.forget()

    def forget(self) -> None:
        """Lose all data, as in a restart without persistence."""
        self._data = lua.new()
        self._scripts: dict[bytes, lua.Script] = {}
        self.is_new = True
        """Whether anything may have been written since the last ``update_snapshot()``."""
        self.snapshot = LockSnapshot()
        """The snapshot that ``update_snapshot()`` updates unless it is given another."""

    def execute(self, words: Sequence[Any]) -> Any:
        """Return the reply to a command, as hiredis would return it."""
        return self.serve(understood(words), self.clock_us())

    def serve(self, command: Command, now_us: float) -> Any:
        """Return the reply to a parsed command at the given time."""
        kind, digest, script, words = command
        if script is None:
            script = self._scripts.get(digest)
            if script is None:
                return ReplyError("NOSCRIPT No matching script. Please use EVAL.")
        elif digest:
            self._scripts[digest] = script
            if kind == b"SCRIPT":
                return digest
        lua.running.publish = self.publish
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

    def update_snapshot(
        self, lock: bytes, queue: bytes, revoked: bytes, other: LockSnapshot | None = None
    ) -> bool:
        """Update the snapshot of a lock; False if nothing was written since the last time.

        An observer of another lock passes a snapshot of its own, which is updated each time.
        """
        self.is_new = False
        seen = lua.read_snapshot(self._data, lock, queue, revoked, other is not None)
        if seen is None:
            return False
        snapshot = other or self.snapshot
        owner, until_ms, count, *there = seen
        snapshot.owner = owner.decode() if owner else ""
        snapshot.until_us = math.inf if until_ms is None else 1000 * (until_ms + 1)
        names = [one.decode() for one in there] if there else ()
        snapshot.queue, snapshot.revoked = names[:count], names[count:]
        return True
