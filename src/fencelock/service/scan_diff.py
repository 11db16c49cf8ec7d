"""Compare two looks at the engine: which locks were granted, renewed, released or lost meanwhile.

Pure: no engine, no clock. The engine shows who holds what now, not what has happened. So a lock
that is gone was

* *released*, if its lease would still have run when it was looked for;
* *expired*, if its lease had run out by then, and its holder had not renewed it in time before;
* *gone*, if neither can be told: a short lease may be renewed and released between two looks.

What is known better, because a call of this node did it, is passed in ``Known``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from ..model import Holding, Waiting

JITTER_S, JITTER, JITTER_MAX_S = 0.1, 0.02, 2.0  # by which a time left may differ: see jitter()
JOINED_S = 1.0  # by which the age of a waiter may differ between two looks

Key: TypeAlias = tuple[str, str, int, int | None]
ChangeKind: TypeAlias = Literal[
    "granted", "renewed", "changed", "released", "expired", "gone", "revoked"
]


class Look(NamedTuple):
    """All holders at one moment."""

    at: float
    locks: Mapping[Key, Holding]


class Known(NamedTuple):
    """What calls of this node have done since the last look."""

    released: set[tuple[str, int]]
    """Names and fences."""
    revoked: dict[str, tuple[str, str]]
    """By name: the reason, and the identity that revoked it."""


class Change(NamedTuple):
    """One difference between two looks."""

    kind: ChangeKind
    lock: Holding
    """As it was seen last; if it has ended, its age and time left are those at the later look."""
    reason: str | None = None
    by: str | None = None


def look(at: float, holdings: Iterable[Holding]) -> Look:
    return Look(at, {(one.name, one.kind, one.fence, one.slot): one for one in holdings})


def differences(before: Look, after: Look, known: Known) -> Iterator[Change]:
    """Yield what has happened between two looks, the locks that ended first."""
    elapsed = after.at - before.at
    for key, lock in before.locks.items():
        if key not in after.locks:
            yield _ended(lock, elapsed, known)
    for key, lock in after.locks.items():
        last = before.locks.get(key)
        if last is None:
            yield Change("granted", lock)
        elif last.role != lock.role:
            yield Change("changed", lock)  # a writer has become a reader
        elif lock.ttl and lock.remaining > last.remaining - elapsed + jitter(lock.ttl):
            yield Change("renewed", lock)


def _ended(lock: Holding, elapsed: float, known: Known) -> Change:
    left = lock.remaining - elapsed
    last = lock._replace(age=lock.age + elapsed, remaining=left)
    if lock.name in known.revoked:
        reason, by = known.revoked[lock.name]
        return Change("revoked", last, reason, by)
    endless = not lock.ttl  # a key of another program, without expiry
    if endless or (lock.name, lock.fence) in known.released or left > jitter(lock.ttl):
        return Change("released", last)
    return Change("expired" if lock.remaining < lock.ttl / 2 else "gone", last)


def jitter(ttl: float) -> float:
    """Return by how many seconds a lease's time left may jump although nobody renewed it."""
    return min(JITTER_S + JITTER * ttl, JITTER_MAX_S)


def same_queue(before: tuple[Waiting, ...], after: tuple[Waiting, ...], elapsed: float) -> bool:
    """Return whether a queue is the one that was seen before, in the same order."""
    if len(before) != len(after):
        return False
    return all(
        (one.role, one.meta) == (other.role, other.meta)
        and abs(one.age + elapsed - other.age) < JOINED_S
        for one, other in zip(before, after, strict=True)
    )
