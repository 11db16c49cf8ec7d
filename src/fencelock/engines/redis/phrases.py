"""How requests to take and to leave a lock are written: what is the same again and again is packed
once, and a request is put together of two such parts with an owner between them.

Packing each request anew would take as long as all the rest that a client does for it.
"""

from __future__ import annotations

from typing import NamedTuple

from .keys import DECLARED, Keys, keys_of
from .scripts import Script, script
from .wire import Word, opening, packed_words

KEPT_MAX = 300  # names, and threads or tasks, whose part of a request is kept packed
OWNER_LENGTH = 32  # of an id that a world draws


class Place(NamedTuple):
    """Where a name is kept, and how requests for it begin, up to the text of their owner."""

    keys: Keys
    take: bytes
    join: bytes
    leave: bytes


class Ending(NamedTuple):
    """How requests to acquire end that ask for this ttl, and how long to wait for the answer."""

    ttl: float
    text: bytes
    request_timeout: float


class Phrases:
    """The parts of one client's requests."""

    def __init__(self, prefix: str, inbox: str, alone: bool, request_timeout: float) -> None:
        self._prefix = prefix
        self._inbox = inbox
        self._request_timeout = request_timeout
        self.acquire, self.release = script("acquire"), script("release")
        self.last: tuple[Word, ...] = () if alone else ("0",)
        """What every request ends with, where no server hears all."""
        self.left = b"\r\n" + (packed_words(*self.last) if self.last else b"")
        """How a request to leave ends."""
        self.places: dict[str, Place] = {}
        """Names that were used, because programs use the same ones again and again."""
        self.endings: dict[tuple[str, bool], Ending] = {}
        """By what is said of the holder and whether it would queue: mostly all are alike."""

    def place(self, name: str) -> Place:
        """Where a name is kept, from now on among those that were used."""
        place = self.places.get(name)
        if place is None:
            if len(self.places) >= KEPT_MAX:
                self.places.clear()
            keys = keys_of(name, self._prefix)
            take, join = (1 + len(self.words(1.0, "", joins)) for joins in (False, True))
            place = self.places[name] = Place(
                keys,
                _beginning(self.acquire, keys, take),
                _beginning(self.acquire, keys, join),
                _beginning(self.release, keys, 1 + len(self.last)),
            )
        return place

    def words(self, ttl: float, meta: str, joins: bool) -> tuple[Word, ...]:
        """What a request to acquire says, but for its owner."""
        if joins:
            return ms(ttl), meta, self._inbox, *self.last
        return (ms(ttl), meta, "", *self.last) if self.last else (ms(ttl), meta)

    def ending(self, ttl: float, meta: str, joins: bool) -> Ending:
        """The same, packed, and kept."""
        if len(self.endings) >= KEPT_MAX:
            self.endings.clear()
        text = b"\r\n" + packed_words(*self.words(ttl, meta, joins))
        ending = self.endings[meta, joins] = Ending(ttl, text, min(ttl, self._request_timeout))
        return ending


def _beginning(script: Script, keys: Keys, words: int) -> bytes:
    named = packed_words(*keys.declared)
    return b"%b%b$%d\r\n" % (opening(script, DECLARED, words), named, OWNER_LENGTH)


def unusual(beginning: bytes, owner: bytes, ending: bytes) -> bytes:
    """A request of an owner whose id is of another length: a lease that was taken over, say."""
    usual = b"$%d\r\n" % OWNER_LENGTH
    return b"%b$%d\r\n%b%b" % (beginning.removesuffix(usual), len(owner), owner, ending)


def ms(seconds: float) -> str:
    """Milliseconds, as the server counts."""
    return str(max(1, round(seconds * 1000)))
