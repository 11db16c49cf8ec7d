"""Wake waiters to look again: one blocking query for each key that has waiters.

A query waits until a key has another index than the one a waiter has read, so that no change is
missed between the read and the query. It wakes all waiters for the key. They have no order: the
first one to send its request gets the lock.
"""

from __future__ import annotations

from ...errors import FencelockError
from ...world import Signal, World, sleep
from .._http.nodes import POLLS_MAX
from .agents import Agents

RETRY_S = 0.5  # after a query that failed


class _Watch:
    """The waiters for one key, by owner."""

    def __init__(self) -> None:
        self.signals: dict[str, Signal] = {}
        self.index = 0  # the ModifyIndex that the last waiter read
        self.queries = False


class Watches:
    """The waiters of one client."""

    def __init__(self, world: World, agents: Agents) -> None:
        self._world = world
        self._agents = agents
        self._mutex = world.mutex()
        self._by_key: dict[str, _Watch] = {}
        self._queries = 0
        self._closed = False

    def join(self, key: str, owner: str, signal: Signal) -> None:
        """Register the signal of an owner that waits for a key."""
        with self._mutex:
            self._by_key.setdefault(key, _Watch()).signals[owner] = signal

    def leave(self, key: str, owner: str) -> None:
        """Remove the signal of an owner. A query in progress ends by itself."""
        with self._mutex:
            watch = self._by_key.get(key)
            if watch is not None:
                watch.signals.pop(owner, None)
                if not watch.signals and not watch.queries:
                    del self._by_key[key]

    def arm(self, key: str, index: int) -> bool:
        """Query for a change of a key's index; return whether a query will wake the waiters."""
        with self._mutex:
            watch = self._by_key.get(key)
            if watch is None or self._closed:
                return False
            watch.index = index
            if watch.queries or self._queries >= POLLS_MAX:
                return watch.queries
            watch.queries, self._queries = True, self._queries + 1
        query = self._query(key, watch)
        try:
            self._world.spawn(query, "fencelock-watch")
        except RuntimeError:  # no thread left, or the loop is closed
            query.close()
            self._wake(key, watch)
            return False
        return True

    async def _query(self, key: str, watch: _Watch) -> None:
        try:
            while watch.signals and not self._closed:
                index = watch.index
                if await self._agents.changed(key, index) not in (index, watch.index):
                    return
        except FencelockError:
            await sleep(self._world, RETRY_S)  # the waiters get the same error themselves
        finally:
            self._wake(key, watch)

    def _wake(self, key: str, watch: _Watch) -> None:
        """Wake all waiters of a query that has ended: if they must wait on, they arm the next."""
        with self._mutex:
            watch.queries, self._queries = False, self._queries - 1
            signals = list(watch.signals.values())
            if not signals and self._by_key.get(key) is watch:
                del self._by_key[key]
        for signal in signals:
            signal.set()

    def close(self) -> None:
        """End all queries."""
        self._closed = True
        self._agents.nodes.close_polls()
