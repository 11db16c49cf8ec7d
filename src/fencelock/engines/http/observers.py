"""Wake observers of a name when it may have changed: one poll of the service for each."""

from __future__ import annotations

from typing import Any

from ...errors import FencelockError
from ...world import Signal, World, sleep
from .replicas import Replicas

POLL_S = 20.0
RETRY_S = 0.2


class Observer:
    """One observer of a name."""

    def __init__(self, name: dict[str, object], signal: Signal, seen: str) -> None:
        self.name = name
        self.signal = signal
        self.seen = seen
        """The service's tag of the state of the name when it was last read."""
        self.ended = False


class Observers:
    """The observers of one client."""

    def __init__(self, world: World, replicas: Replicas) -> None:
        self._world = world
        self._replicas = replicas
        self._all: list[Observer] = []

    async def observe(self, name: dict[str, object], signal: Signal) -> None:
        """Start to poll for a name, and set the signal on each change."""
        seen = await self._replicas.look("observe", {**name, "hold": 0.0}, _read_seen)
        observer = Observer(name, signal, seen)
        self._all.append(observer)
        self._world.spawn(self._poll(observer), "fencelock-observer")

    def unobserve(self, signal: Signal) -> None:
        """Stop an observer. Its poll in progress ends by itself."""
        for observer in self._all:
            if observer.signal is signal:
                self._all.remove(observer)
                observer.ended = True
                return

    async def _poll(self, observer: Observer) -> None:
        while not observer.ended:
            body = {**observer.name, "seen": observer.seen, "hold": POLL_S}
            try:
                seen = await self._replicas.look("observe", body, _read_seen, POLL_S)
            except FencelockError:
                observer.signal.set()  # a change meanwhile would be missed
                await sleep(self._world, RETRY_S)
                continue
            if seen != observer.seen:
                observer.seen = seen
                observer.signal.set()

    def close(self) -> None:
        """Stop all observers."""
        for observer in self._all:
            observer.ended = True


def _read_seen(answer: dict[str, Any]) -> str:
    return str(answer["seen"])
