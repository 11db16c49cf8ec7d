"""A model of one Redis server: the keys, their times to live, and the very scripts of the package.

The scripts are run unchanged (`lua.py`); only the commands they call are
modelled, and of those only what the scripts use. The clock is handed in. What the model answers is
held against a real server by `test_models.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha1
from typing import Any

from hiredis import ReplyError

from tests.sim.lua import OK, Refused, run


class ModelRedis:
    """The data of a server, and how it answers commands."""

    def __init__(self, clock_us: Callable[[], int]) -> None:
        self._clock_us = clock_us
        self._frozen_us = 0  # while a script runs, time stands still for it
        self.data: dict[bytes, Any] = {}
        self.expires_ms: dict[bytes, int] = {}
        self.scripts: dict[bytes, bytes] = {}
        self.publish: Callable[[bytes, bytes], int] = lambda channel, message: 0
        """Hands a message to those who listen, and says how many they are."""

    def forget(self) -> None:
        """Restart without memory."""
        self.data, self.expires_ms, self.scripts = {}, {}, {}

    def execute(self, words: Sequence[bytes]) -> Any:
        """The reply to a command, as hiredis would give it."""
        command = words[0].upper()
        try:
            if command in (b"EVAL", b"EVALSHA"):
                return self._evaluate(command, words)
            if command == b"SCRIPT":
                digest = sha1(words[2], usedforsecurity=False).hexdigest().encode()
                self.scripts[digest] = words[2]
                return digest
            reply = self.call(command, words[1:])
        except Refused as error:
            return ReplyError(str(error))
        return b"OK" if reply is OK else reply

    def _evaluate(self, command: bytes, words: Sequence[bytes]) -> Any:
        source = words[1]
        if command == b"EVALSHA":
            if source not in self.scripts:
                raise Refused("NOSCRIPT No matching script. Please use EVAL.")
            source = self.scripts[source]
        else:
            self.scripts[sha1(source, usedforsecurity=False).hexdigest().encode()] = source
        count = int(words[2])
        self._frozen_us = self._clock_us()
        try:
            return run(self.call, source, words[3 : 3 + count], words[3 + count :])
        finally:
            self._frozen_us = 0

    def call(self, command: bytes, args: Sequence[bytes]) -> Any:
        """One command."""
        return COMMANDS[command](self, *args)  # a KeyError: the model has to learn a command

    # Time, and what it does to keys.

    @property
    def now_us(self) -> int:
        return self._frozen_us or self._clock_us()

    def live(self, key: bytes, kind: type = bytes) -> Any:
        """The value of a key, or None; a key whose time is over is gone."""
        value = self.data.get(key)
        if value is None:
            return None
        if key in self.expires_ms and self.now_us // 1000 > self.expires_ms[key]:
            self.drop(key)
            return None
        if type(value) is not kind:
            raise Refused("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value

    def drop(self, key: bytes) -> None:
        self.data.pop(key, None)
        self.expires_ms.pop(key, None)

    def has(self, key: bytes) -> bool:
        value = self.data.get(key)
        return value is not None and self.live(key, type(value)) is not None

    def expire_in(self, key: bytes, ms: bytes) -> None:
        self.expires_ms[key] = self.now_us // 1000 + int(ms)


# The commands. Each takes its words as bytes and returns what the protocol would carry.


def _ping(server: ModelRedis) -> object:
    return b"PONG"


def _time(server: ModelRedis) -> list[bytes]:
    seconds, micros = divmod(server.now_us, 1_000_000)
    return [b"%d" % seconds, b"%d" % micros]


def _config(server: ModelRedis, *words: bytes) -> list[bytes]:
    return [words[1], b"no"]


def _exists(server: ModelRedis, key: bytes) -> int:
    return int(server.has(key))


def _get(server: ModelRedis, key: bytes) -> Any:
    return server.live(key)


def _set(server: ModelRedis, key: bytes, value: bytes, *options: bytes) -> object:
    given = [option.upper() for option in options]
    if b"NX" in given and server.has(key):
        return None
    old = server.live(key) if b"GET" in given else OK
    server.drop(key)
    server.data[key] = value
    if b"PX" in given:
        server.expire_in(key, options[given.index(b"PX") + 1])
    return old


def _del(server: ModelRedis, key: bytes) -> int:
    found = server.has(key)
    server.drop(key)
    return int(found)


def _pexpire(server: ModelRedis, key: bytes, ms: bytes) -> int:
    if not server.has(key):
        return 0
    server.expire_in(key, ms)
    return 1


def _pttl(server: ModelRedis, key: bytes) -> int:
    if not server.has(key):
        return -2
    when = server.expires_ms.get(key)
    return -1 if when is None else max(0, when - server.now_us // 1000)


def _hget(server: ModelRedis, key: bytes, field: bytes) -> Any:
    return (server.live(key, dict) or {}).get(field)


def _hmget(server: ModelRedis, key: bytes, *fields: bytes) -> list[Any]:
    found = server.live(key, dict) or {}
    return [found.get(field) for field in fields]


def _hexists(server: ModelRedis, key: bytes, field: bytes) -> int:
    return int(field in (server.live(key, dict) or {}))


def _hset(server: ModelRedis, key: bytes, *pairs: bytes) -> int:
    found = server.live(key, dict)
    if found is None:
        found = server.data[key] = {}
    before = len(found)
    found.update(zip(pairs[::2], pairs[1::2], strict=True))
    return len(found) - before


def _hdel(server: ModelRedis, key: bytes, field: bytes) -> int:
    return _without(server, key, server.live(key, dict), field)


def _zadd(server: ModelRedis, key: bytes, score: bytes, member: bytes) -> int:
    found = server.live(key, _Sorted)
    if found is None:
        found = server.data[key] = _Sorted()
    before = len(found)
    found[member] = float(score)
    return len(found) - before


def _zrem(server: ModelRedis, key: bytes, member: bytes) -> int:
    return _without(server, key, server.live(key, _Sorted), member)


def _zscore(server: ModelRedis, key: bytes, member: bytes) -> Any:
    score = (server.live(key, _Sorted) or {}).get(member)
    return None if score is None else b"%.17g" % score


def _zrank(server: ModelRedis, key: bytes, member: bytes) -> Any:
    found = server.live(key, _Sorted) or _Sorted()
    return found.order().index(member) if member in found else None


def _zrange(
    server: ModelRedis, key: bytes, first: bytes, last: bytes, scores: bytes = b""
) -> list[bytes]:
    found = server.live(key, _Sorted) or _Sorted()
    start, stop = int(first), int(last)
    members = found.order()
    members = members[start if start >= 0 else max(0, len(members) + start) :][
        : (stop if stop >= 0 else len(members) + stop) - start + 1 if start >= 0 else None
    ]
    if not scores:
        return members
    return [word for member in members for word in (member, b"%.17g" % found[member])]


def _publish(server: ModelRedis, channel: bytes, message: bytes) -> int:
    return server.publish(channel, message)


class _Sorted(dict[bytes, float]):
    """A sorted set."""

    def order(self) -> list[bytes]:
        return sorted(self, key=lambda member: (self[member], member))


def _without(server: ModelRedis, key: bytes, found: Any, member: bytes) -> int:
    """Take a member away; what is empty is gone."""
    if not found or member not in found:
        return 0
    del found[member]
    if not found:
        server.drop(key)
    return 1


COMMANDS: dict[bytes, Callable[..., Any]] = {
    b"PING": _ping, b"TIME": _time, b"CONFIG": _config, b"EXISTS": _exists, b"GET": _get,
    b"SET": _set, b"DEL": _del, b"PEXPIRE": _pexpire, b"PTTL": _pttl, b"HGET": _hget,
    b"HEXISTS": _hexists, b"HMGET": _hmget, b"HSET": _hset, b"HDEL": _hdel, b"ZADD": _zadd,
    b"ZREM": _zrem, b"ZSCORE": _zscore, b"ZRANK": _zrank, b"ZRANGE": _zrange, b"PUBLISH": _publish,
}  # fmt: skip
