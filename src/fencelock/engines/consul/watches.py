"""Have those who wait look again: one blocking query for each key that is waited for.

A query waits for a key to have another index than a waiter has seen, so that no change is missed
between its look and the query. It wakes all waiters of the key. They come in no order: whoever asks
first gets the lock.
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
        self.index = 0  # that the last one saw who has to wait
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
        """Set the signal whenever this owner should look again."""
        with self._mutex:
            self._by_key.setdefault(key, _Watch()).signals[owner] = signal

    def leave(self, key: str, owner: str) -> None:
        """Forget an owner that waits no more. A query that is under way ends by itself."""
        with self._mutex:
            watch = self._by_key.get(key)
            if watch is not None:
                watch.signals.pop(owner, None)
                if not watch.signals and not watch.queries:
                    del self._by_key[key]

    def arm(self, key: str, index: int) -> bool:
        """Wake the waiters once a key has another index; whether a query will tell."""
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
            await sleep(self._world, RETRY_S)  # those who wait meet the same themselves
        finally:
            self._wake(key, watch)

    def _wake(self, key: str, watch: _Watch) -> None:
        """Let all look: whoever has to wait on has the next query begun."""
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
