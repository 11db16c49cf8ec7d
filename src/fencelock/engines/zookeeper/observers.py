"""Wakes observers of a name on events of ZooKeeper's watches: on its holders and its memory.

A watch fires once. On each event new watches are sent before the observer is woken: what it reads
then is read after they were set, so that no change is missed. Watches that were lost with their
connection are set again in the background, and their observers are woken once more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...world import Signal, World
from ..timer import NEVER, Timer
from . import paths
from .folders import Folders
from .wire import Connection, messages
from .wire.messages import Batch, Request, Send


class Observation:
    """One observed name: the nodes that are watched, and the signals to set."""

    def __init__(self, watched: list[str], on_lost: Callable[[], None]) -> None:
        self.signals: list[Signal] = []
        self.is_lost = False
        """Whether its watches were lost with a connection."""
        self.watchers = {path: partial(self._on_event, path) for path in watched}
        self._on_lost = on_lost

    def requests(self, path: str) -> tuple[Request, Request]:
        """Return the requests that set the watches of a node: on the node, and on its children."""
        watcher = self.watchers[path]
        return messages.exists(path, watcher), messages.get_children(path, watcher)

    def tell(self) -> None:
        for signal in list(self.signals):
            signal.set()

    def _on_event(self, path: str, send: Send | None) -> None:
        if not self.signals:
            return
        if send is None:
            self._lose()
        else:
            requests = self.requests(path)
            batch = Batch(len(requests), lambda: self._lose() if batch.lost else None)
            send(requests, batch)
        self.tell()

    def _lose(self) -> None:
        self.is_lost = True
        self._on_lost()


class Observers:
    """The names that one client observes."""

    def __init__(self, world: World, connection: Connection, folders: Folders) -> None:
        self._world = world
        self._connection = connection
        self._folders = folders
        self._mutex = world.mutex()
        self._names: dict[str, Observation] = {}
        self.timer = Timer(world, self._watch_again, "fencelock-observers")

    async def observe(self, name: str, signal: Signal) -> None:
        """Have the signal set when a holder or waiter comes or goes, or a memory changes."""
        with self._mutex:
            if name not in self._names:
                lost = partial(self.timer.expect, self._world.now())
                self._names[name] = Observation(self._watched(name), lost)
            observation = self._names[name]
            observation.signals.append(signal)
        try:
            await self._watch(observation)
        except BaseException:
            self.unobserve(name, signal)
            raise

    def unobserve(self, name: str, signal: Signal) -> None:
        with self._mutex:
            observation = self._names.get(name)
            if observation is None or signal not in observation.signals:
                return
            observation.signals.remove(signal)
            if observation.signals:
                return
            del self._names[name]
        for path, watcher in observation.watchers.items():
            self._connection.unwatch(path, watcher)

    def _watched(self, name: str) -> list[str]:
        """Return the nodes that change when the holders of a name, or its memory, change."""
        path = self._folders.shared_path
        rwlock, semaphore = (path(kind, name) for kind in paths.KINDS.values())
        leases, memory = f"{semaphore}/{paths.LEASES}", path(paths.MEMORY, name)
        return [self._folders.path(name), rwlock, leases, memory]

    async def _watch(self, observation: Observation) -> None:
        observation.is_lost = False
        try:
            for path in observation.watchers:
                await self._connection.call(*observation.requests(path))
        except BaseException:
            observation.is_lost = True
            raise

    async def _watch_again(self) -> float:
        """Set the lost watches again, and wake their observers."""
        with self._mutex:
            lost = [observation for observation in self._names.values() if observation.is_lost]
        for observation in lost:
            await self._watch(observation)
            observation.tell()
        return NEVER
