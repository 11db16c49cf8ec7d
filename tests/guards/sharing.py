"""Readers and writers of one name, as checks over whatever enters, writes and tells its marks.

A writer is refused if a later reader or writer was seen, a reader if a later writer was.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, Protocol

import pytest

from fencelock.errors import StaleFence

STEPS = 60
FENCES = 40


class Face(Protocol):
    """A guard with one number behind it."""

    tells: bool
    """Its refusals say which mark refused."""

    def enter(self, fence: int, reading: bool = False) -> object: ...

    def write(self, value: int, fence: int) -> None: ...

    def mark(self, reading: bool = False) -> int: ...


def keeps_two_marks(face: Face) -> None:
    """Each rule once, in an order in which no other could make up for it."""
    face.write(1, 5)
    face.enter(7, reading=True)
    face.enter(6, reading=True)  # beside the later one: nobody has written since
    assert marks(face) == (7, 5)
    refused(face, lambda: face.write(2, 6), 6, 7, "read")
    refused(face, lambda: face.enter(6), 6, 7, "read")
    refused(face, lambda: face.enter(4, reading=True), 4, 5, "write")
    assert marks(face) == (7, 5)
    face.write(3, 8)
    assert marks(face) == (8, 8)
    refused(face, lambda: face.enter(7, reading=True), 7, 8, "write")
    refused(face, lambda: face.write(4, 7), 7, 8, "write")
    face.enter(8, reading=True)  # a writer that became a reader
    assert marks(face) == (8, 8)
    face.write(5, 8)
    face.enter(9, reading=True)
    refused(face, lambda: face.write(6, 8), 8, 9, "read")
    assert marks(face) == (9, 8)


def a_write_by_the_highest_readers_own_fence_counts(face: Face) -> None:
    """It was a writer, became a reader before it entered, and what it sent before comes late."""
    face.write(1, 5)
    face.enter(7, reading=True)
    face.write(2, 7)
    assert marks(face) == (7, 7)
    refused(face, lambda: face.enter(6, reading=True), 6, 7, "write")


def interleave(face: Face, seed: int) -> None:
    """Holders of all ages in any order: nothing stale passes, and nothing else is refused."""
    chance = random.Random(seed)
    highest = written = 0
    passed: list[tuple[str, int]] = []  # what was let through, in its order
    for step in range(STEPS):
        fence = chance.randrange(1, FENCES)
        wrote = any(other == fence for kind, other in passed if kind != "read")
        # Even ones are readers; a writer reads when it has been seen and became a reader.
        kind = "read" if fence % 2 == 0 or (wrote and chance.random() < 0.4) else "write"
        if kind == "write" and chance.random() < 0.3:
            kind = "enter"
        where = f"step {step} of seed {seed}: {kind} {fence} after {passed}"
        try:
            if kind == "write":
                face.write(step, fence)
            else:
                face.enter(fence, reading=kind == "read")
        except StaleFence as stale:
            limit = written if kind == "read" else highest
            told = (stale.offered, stale.highest)
            assert fence < limit, where
            assert told == (fence, limit), where
        else:
            later = [other for other in passed if other[1] > fence]
            if kind == "read":
                later = [other for other in later if other[0] != "read"]
            assert not later, where
            passed.append((kind, fence))
            highest = max(highest, fence)
            written = written if kind == "read" else fence
        assert marks(face) == (highest, written), where


def marks(face: Face) -> tuple[int, int]:
    return face.mark(), face.mark(reading=True)


def refused(
    face: Face,
    act: Callable[[], object],
    offered: int,
    highest: int,
    seen: Literal["read", "write"],
) -> None:
    with pytest.raises(StaleFence) as caught:
        act()
    assert (caught.value.offered, caught.value.highest) == (offered, highest)
    if face.tells:
        assert caught.value.seen == seen
        assert ("reader" in str(caught.value)) == (seen == "read")
