"""Curator's InterProcessReadWriteLock and InterProcessSemaphoreV2, as its Java decides, over kazoo.

Ported from the classes LockInternals, StandardLockInternalsDriver, InterProcessReadWriteLock and
InterProcessSemaphoreV2 of Apache Curator 5: how nodes are named, how all children of a folder are
sorted, and who holds what. Nobody waits here: a test looks.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

READ, WRITE = "__READ__", "__WRIT__"


def fix_for_sorting(text: str, *names: str) -> str:
    """What stands behind the last of these words; the text itself where there is none."""
    for name in names:
        text = text.rpartition(name)[2] if name in text else text
    return text


def create(kazoo: Any, folder: str, name: str, *, sequence: bool = True) -> str:
    """Make a node "with protection", and the folders above it."""
    kazoo.ensure_path(folder)
    path = f"{folder}/_c_{uuid4()}-{name}"
    made: str = kazoo.create(path, b"from Java", ephemeral=True, sequence=sequence)
    return made.rpartition("/")[2]


class ReadWriteLock:
    def __init__(self, kazoo: Any, folder: str) -> None:
        self._kazoo = kazoo
        self._folder = folder

    def join(self, name: str) -> str:
        """Make a contender; it holds when ``has`` says so."""
        return create(self._kazoo, self._folder, name)

    def join_under(self, writer: str) -> str:
        """The thread that writes wants to read, too: its node takes the number of the writer's."""
        name = READ + fix_for_sorting(writer, READ, WRITE)
        return create(self._kazoo, self._folder, name, sequence=False)

    def has(self, node: str) -> bool:
        children = self._kazoo.get_children(self._folder)
        assert node in children
        number = fix_for_sorting(node, READ, WRITE)
        before = [c for c in children if fix_for_sorting(c, READ, WRITE) < number]
        if READ in node:  # a writer of the same number is the same thread, which may read
            return not any(WRITE in child for child in before)
        return not before

    def leave(self, node: str) -> None:
        self._kazoo.delete(f"{self._folder}/{node}")


class Semaphore:
    def __init__(self, kazoo: Any, folder: str, leases: int) -> None:
        self._kazoo = kazoo
        self._locks, self._leases = f"{folder}/locks", f"{folder}/leases"
        self._max = leases

    def join(self) -> str:
        """Queue for the mutex under which leases are made."""
        return create(self._kazoo, self._locks, "lock-")

    def is_first(self, lock: str) -> bool:
        children: list[str] = self._kazoo.get_children(self._locks)
        return min(children, key=lambda child: fix_for_sorting(child, "lock-")) == lock

    def make_lease(self) -> str:
        return create(self._kazoo, self._leases, "lease-")

    def has(self, lease: str) -> bool:
        children = self._kazoo.get_children(self._leases)
        assert lease in children
        return len(children) <= self._max

    def unlock(self, lock: str) -> None:
        self._kazoo.delete(f"{self._locks}/{lock}")

    def close(self, lease: str) -> None:
        self._kazoo.delete(f"{self._leases}/{lease}")
