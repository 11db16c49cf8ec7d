"""Let one request at a time act on each resource, within one process.

Without that, a slow handler could be overtaken: fence 5 is accepted and its handler is still
running, fence 6 is accepted and done, and then the handler of 5 writes. With it, the check of 6
comes after 5 is done, and a check of 5 after 6 is refused.
"""

from __future__ import annotations

import asyncio
import threading


class Busy(Exception):
    """The resource was not free in time."""


class ThreadHolds:
    """Holds for servers with threads, kept for names in use only."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._holds: dict[str, tuple[threading.Lock, list[None]]] = {}

    def enter(self, name: str, timeout: float) -> None:
        """Wait until no other request holds the name; raise Busy after the timeout."""
        with self._turn:
            lock, users = self._holds.setdefault(name, (threading.Lock(), []))
            users.append(None)
        if not lock.acquire(timeout=timeout):
            self._leave(name, users)
            raise Busy

    def leave(self, name: str) -> None:
        lock, users = self._holds[name]
        lock.release()
        self._leave(name, users)

    def _leave(self, name: str, users: list[None]) -> None:
        with self._turn:
            users.pop()
            if not users:
                del self._holds[name]


class TaskHolds:
    """Holds for asyncio servers, first come first served, kept for names in use only."""

    def __init__(self) -> None:
        self._holds: dict[str, list[asyncio.Future[None]]] = {}

    async def enter(self, name: str, timeout: float) -> None:
        """Wait until no other request holds the name; raise Busy after the timeout."""
        waiters = self._holds.get(name)
        if waiters is None:
            self._holds[name] = []
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.append(mine)
        try:
            async with asyncio.timeout(timeout):
                await mine
        except BaseException as error:
            if mine.done() and not mine.cancelled():
                self.leave(name)  # it got its turn all the same
            elif mine in waiters:
                waiters.remove(mine)
            if isinstance(error, TimeoutError):
                raise Busy from None
            raise

    def leave(self, name: str) -> None:
        """Give the turn to the next request."""
        waiters = self._holds[name]
        while waiters:
            following = waiters.pop(0)
            if not following.done():
                following.set_result(None)
                return
        del self._holds[name]
