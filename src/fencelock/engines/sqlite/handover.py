"""What the transactions of one file answer, and the rules of a hand-over that all of them keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...model import Share

CLAIM_S = 0.5  # how long a lock that was handed over waits for its new holder
FORGET_S = 30.0  # a waiter that has not looked for so long is dead
CONTENDED_MAX = 1000

SHARED_KEYS = {"semaphore": "\x01", "rwlock": "\x02"}
"""What the keys of semaphores and read/write locks begin with: no name has control characters."""


def key_of(name: str, share: Share | None) -> str:
    """Return the key under which a name has its rows and its waiters; a lock's is its name."""
    return name if share is None else SHARED_KEYS[share.kind] + name


def is_shared(key: str) -> bool:
    """Whether a key is that of a semaphore or a read/write lock."""
    return key < "\x03"


class Handover(NamedTuple):
    """A waiter that was given the lock and has to be told."""

    name: str
    """The name of a lock, or the key of a semaphore or a read/write lock."""
    owner: str
    inbox: str


Handovers = Sequence[Handover]
NOBODY: Handovers = ()


class Answer(NamedTuple):
    """What became of a request: a fence, or who is in the way."""

    fence: int = 0
    position: int = 0
    holder: str = ""
    handovers: Handovers = NOBODY
    share: Share | None = None
    """What of a semaphore or a read/write lock was granted."""
    limit: int = 0
    """The limit of those who use a semaphore now, where it is not the one asked for."""


class Contended(set[str]):
    """Names that are spared the single statements, which are in vain while others wait."""

    def note(self, name: str) -> None:
        """Note a name; when there are too many, begin again."""
        if len(self) >= CONTENDED_MAX:
            self.clear()
        self.add(name)
