"""Build the requests to acquire and to release of parts that are packed once.

A request is a prefix for its key, the owner, and a suffix for its options: prefixes and suffixes
repeat. Packing each request from scratch would take as long as all the rest that a client does for
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from ...model import Share
from .keys import holders_of, keys_of, lock_of
from .scripts import Script, script
from .settings import Settings
from .wire.connection import ScriptCall, Word, packed_head, packed_words

KEPT_MAX = 300  # names, and threads or tasks, whose part of a request is cached
OWNER_LENGTH = 32  # of an owner id that a world makes


class KeyPrefix(NamedTuple):
    """The packed beginnings of requests for a name, up to the text of their owner."""

    acquire: bytes
    join: bytes
    release: bytes


class Suffix(NamedTuple):
    """The packed end of requests to acquire with this ttl, and how long to wait for the reply."""

    ttl: float
    packed: bytes
    request_timeout: float


_NONE = Suffix(0.0, b"", 0.0)  # none is cached


class Prepacked:
    """The parts of one client's requests."""

    def __init__(self, settings: Settings, inbox: str, is_one_server: bool) -> None:
        self.keys = lru_cache(KEPT_MAX)(partial(keys_of, prefix=settings.prefix))
        """The keys of a name."""
        self._inbox = inbox
        self._request_timeout = settings.request_timeout
        self._acquire, self._release = script("acquire"), script("release")
        self._last: tuple[Word, ...] = () if is_one_server else ("0",)
        """The last argument of every request, where no server reaches all inboxes."""
        self._release_suffix = b"\r\n" + (packed_words(*self._last) if self._last else b"")
        self._prefixes: dict[str, KeyPrefix] = {}
        """By name, because programs use the same names again and again."""
        self._suffixes: dict[tuple[str, bool], Suffix] = {}
        """By the holder's meta and whether the request would queue: mostly all are alike."""

    def acquire(
        self, name: str, owner: str, ttl: float, meta: str, joins: bool
    ) -> tuple[bytes, float]:
        """Build a request to acquire; return it with the seconds to wait for its reply."""
        prefix, join, _ = self._prefixes.get(name) or self._pack_prefix(name)
        if joins:
            prefix = join
        same_ttl, suffix, request_timeout = self._suffixes.get((meta, joins), _NONE)
        if same_ttl != ttl:
            _, suffix, request_timeout = self._pack_suffix(ttl, meta, joins)
        encoded = owner.encode()
        if len(encoded) != OWNER_LENGTH:
            return _unusual(prefix, encoded, suffix), request_timeout
        return prefix + encoded + suffix, request_timeout

    def release(self, name: str, owner: str) -> bytes:
        """Build a request to release."""
        prefix = (self._prefixes.get(name) or self._pack_prefix(name)).release
        encoded = owner.encode()
        if len(encoded) != OWNER_LENGTH:
            return _unusual(prefix, encoded, self._release_suffix)
        return prefix + encoded + self._release_suffix

    def acquire_call(self, name: str, owner: str, ttl: float, meta: str, joins: bool) -> ScriptCall:
        """The same request as ``acquire`` builds, not packed."""
        words = (owner, *self._words(ttl, meta, joins))
        return ScriptCall(self._acquire, self.keys(name).declared, words)

    def release_call(self, name: str, owner: str) -> ScriptCall:
        """The same request as ``release`` builds, not packed."""
        return ScriptCall(self._release, self.keys(name).declared, (owner, *self._last))

    def _words(self, ttl: float, meta: str, joins: bool) -> tuple[Word, ...]:
        """Return the arguments of a request to acquire that follow its owner."""
        if joins:
            return ms(ttl), meta, self._inbox, *self._last
        return (ms(ttl), meta, "", *self._last) if self._last else (ms(ttl), meta)

    def _pack_prefix(self, name: str) -> KeyPrefix:
        if len(self._prefixes) >= KEPT_MAX:
            self._prefixes.clear()
        keys = self.keys(name).declared
        take, join = (1 + len(self._words(1.0, "", joins)) for joins in (False, True))
        prefix = self._prefixes[name] = KeyPrefix(
            _packed_prefix(self._acquire, keys, take),
            _packed_prefix(self._acquire, keys, join),
            _packed_prefix(self._release, keys, 1 + len(self._last)),
        )
        return prefix

    def _pack_suffix(self, ttl: float, meta: str, joins: bool) -> Suffix:
        if len(self._suffixes) >= KEPT_MAX:
            self._suffixes.clear()
        text = b"\r\n" + packed_words(*self._words(ttl, meta, joins))
        suffix = self._suffixes[meta, joins] = Suffix(ttl, text, min(ttl, self._request_timeout))
        return suffix


def _packed_prefix(script: Script, keys: Sequence[str], words: int) -> bytes:
    head = packed_head(script, len(keys), words)
    return b"%b%b$%d\r\n" % (head, packed_words(*keys), OWNER_LENGTH)


class PrepackedShares:
    """The parts of one client's requests for shares, which name one key each."""

    def __init__(self, settings: Settings, inbox: str, is_one_server: bool) -> None:
        self._inbox, self._one_server = inbox, "1" if is_one_server else "0"
        self._locks = settings.prefix
        self.key = lru_cache(KEPT_MAX)(self._new_key)
        """The key of the holders of a name of a kind."""
        self._prefix = lru_cache(KEPT_MAX)(self._pack_prefix)
        self._suffix = lru_cache(KEPT_MAX)(self._pack_suffix)
        self._release_suffix = b"\r\n" + packed_words(self._one_server)

    def acquire(
        self, key: str, owner: str, ttl: float, meta: str, share: Share, joins: bool
    ) -> bytes:
        """Build a request to acquire."""
        prefix, encoded = self._prefix(key)[0], owner.encode()
        suffix = self._suffix(ttl, meta, share, joins)
        if len(encoded) != OWNER_LENGTH:
            return _unusual(prefix, encoded, suffix)
        return prefix + encoded + suffix

    def release(self, key: str, owner: str) -> bytes:
        """Build a request to release."""
        prefix, encoded = self._prefix(key)[1], owner.encode()
        if len(encoded) != OWNER_LENGTH:
            return _unusual(prefix, encoded, self._release_suffix)
        return prefix + encoded + self._release_suffix

    def acquire_call(
        self, key: str, owner: str, ttl: float, meta: str, share: Share, joins: bool
    ) -> ScriptCall:
        """The same request as ``acquire`` builds, not packed."""
        words = (owner, *self._words(ttl, meta, share, joins))
        return ScriptCall(script("share_acquire"), (key,), words)

    def release_call(self, key: str, owner: str) -> ScriptCall:
        """The same request as ``release`` builds, not packed."""
        return ScriptCall(script("share_release"), (key,), (owner, self._one_server))

    def _words(self, ttl: float, meta: str, share: Share, joins: bool) -> tuple[str, ...]:
        """Return the arguments of a request to acquire that follow its owner."""
        inbox = self._inbox if joins else ""
        return ms(ttl), meta, str(share.units), str(share.limit), inbox, self._one_server

    def _new_key(self, name: str, kind: str) -> str:
        return holders_of(lock_of(name, self._locks), kind)

    def _pack_prefix(self, key: str) -> tuple[bytes, bytes]:
        """Pack the beginnings of requests to acquire and to release, up to their owner's text."""
        return (
            _packed_prefix(script("share_acquire"), (key,), 7),
            _packed_prefix(script("share_release"), (key,), 2),
        )

    def _pack_suffix(self, ttl: float, meta: str, share: Share, joins: bool) -> bytes:
        return b"\r\n" + packed_words(*self._words(ttl, meta, share, joins))


def _unusual(prefix: bytes, owner: bytes, suffix: bytes) -> bytes:
    """Build a request of an owner whose id has another length: a lease taken over, say."""
    usual = b"$%d\r\n" % OWNER_LENGTH
    return b"%b$%d\r\n%b%b" % (prefix.removesuffix(usual), len(owner), owner, suffix)


def ms(seconds: float) -> str:
    """Return milliseconds as the text of an argument; at least 1."""
    return str(max(1, round(seconds * 1000)))
