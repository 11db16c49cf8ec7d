"""The results of the transactions of one file, and the hand-over constants that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...model import Share

CLAIM_S = 0.5  # how long a lock that was handed over waits for its new holder
FORGET_S = 30.0  # a waiter that has not looked for so long is dead
CONTENDED_MAX = 1000

SHARED_KEYS = {"semaphore": "\x01", "rwlock": "\x02"}
"""The first character of the keys of shares: a name has no control characters."""


def key_of(name: str, share: Share | None) -> str:
    """Return the key under which a name has its rows and its waiters; a lock's is its name."""
    return name if share is None else SHARED_KEYS[share.kind] + name


def is_shared(key: str) -> bool:
    """Return whether a key is that of a semaphore or a read/write lock."""
    return key < "\x03"


class Handover(NamedTuple):
    """A waiter that was given the lock and has to be notified."""

    name: str
    """The name of a lock, or the key of a semaphore or a read/write lock."""
    owner: str
    inbox: str


Handovers = Sequence[Handover]
NOBODY: Handovers = ()


class Answer(NamedTuple):
    """The result of a request: a fence, or the holder in its way."""

    fence: int = 0
    position: int = 0
    holder: str = ""
    handovers: Handovers = NOBODY
    share: Share | None = None
    """The share of a semaphore or a read/write lock that was granted."""
    limit: int = 0
    """The limit of a semaphore that is in use, where it differs from the one that was requested."""


class Contended(set[str]):
    """Names for which the single statements are skipped: they fail while others hold or wait."""

    def note(self, name: str) -> None:
        """Add a name; when there are too many, forget them all first."""
        if len(self) >= CONTENDED_MAX:
            self.clear()
        self.add(name)
