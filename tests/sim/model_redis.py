"""A model of one Redis server: the keys, their times to live, and the very scripts of the package.

The scripts are run unchanged; only the commands they call are modelled, and of those only what the
scripts use. That is done in Lua (`model_redis.lua`), where the scripts are. The clock is handed in.
What the model answers is held against a real server by `test_models.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hiredis import ReplyError

from tests.sim import lua


class Sight:
    """What somebody saw who looked into a server: who has the lock and until when, by the server's
    clock; who stands in the queue; and from whom the lock was taken away."""

    __slots__ = ("owner", "queue", "revoked", "until_us")

    def __init__(self) -> None:
        self.owner = ""
        self.until_us = math.inf
        self.queue: Sequence[str] = ()
        self.revoked: Sequence[str] = ()


class ModelRedis:
    """The data of a server, and how it answers commands."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self.clock_us = clock_us
        self.publish: Callable[[bytes, bytes], int] = lambda channel, message: 0
        """Hands a message to those who listen, and says how many they are."""
        self.forget()

    def forget(self) -> None:
        """Restart without memory."""
        self._data = lua.new()
        self._scripts: dict[bytes, lua.Script] = {}
        self.sight = Sight()
        """As it was when somebody looked last."""

    def execute(self, words: Sequence[Any]) -> Any:
        """The reply to a command, as hiredis would give it."""
        command, script = words[0], lua.ask
        if command == b"EVALSHA":
            known = self._scripts.get(words[1])
            if known is None:
                return ReplyError("NOSCRIPT No matching script. Please use EVAL.")
            script, words = known, (int(words[2]), *words[3:])
        elif command == b"EVAL":
            digest, script = lua.learn(words[1])
            self._scripts[digest] = script
            words = (int(words[2]), *words[3:])
        elif command == b"SCRIPT":
            digest, script = lua.learn(words[2])
            self._scripts[digest] = script
            return digest
        try:
            return lua.serve(script, self.publish, self._data, self.clock_us(), *words)
        except lua.Refused as error:
            return ReplyError(str(error))

    def look(self, lock: bytes, queue: bytes, revoked: bytes) -> bool:
        """See what is kept, as no client does; False if nothing was written since the last time."""
        seen = lua.look(self._data, lock, queue, revoked)
        if seen is None:
            return False
        sight = self.sight
        owner, until_ms, count, *there = seen
        sight.owner = owner.decode() if owner else ""
        sight.until_us = math.inf if until_ms is None else 1000 * (until_ms + 1)
        names = [one.decode() for one in there]
        sight.queue, sight.revoked = names[:count], names[count:]
        return True
