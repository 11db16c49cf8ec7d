"""Notify the observers of one client, by the subscription that its waiters have.

An observer is a waiter that is never granted anything; its heartbeat says that it observes.
"""

from __future__ import annotations

from ...world import Signal, World
from .keys import lock_of, observers_of
from .listener import Listener
from .script_runner import ScriptRunner
from .scripts import script
from .settings import Settings
from .wire.connection import ScriptCall


class Observers:
    """The observers of one client."""

    def __init__(
        self,
        world: World,
        runner: ScriptRunner,
        listener: Listener,
        settings: Settings,
        one_server: str,
    ) -> None:
        self._world = world
        self._runner = runner
        self._listener = listener
        self._settings = settings
        self._one_server = one_server
        self._observed: list[tuple[str, Signal, str]] = []
        """The key that is observed, the signal to set, and the owner id made for the two."""

    def _key(self, name: str) -> str:
        return observers_of(lock_of(name, self._settings.prefix))

    async def announce(self, name: str) -> None:
        """Notify all observers of a name, of all clients."""
        call = ScriptCall(script("announce"), (self._key(name),), (self._one_server,))
        await self._runner.run(call, self._settings.request_timeout)

    async def observe(self, name: str, signal: Signal) -> None:
        """Set the signal whenever a name is announced, or may have been."""
        key, listener = self._key(name), self._listener
        if listener.subscription is None:
            await listener.open()
        owner = self._world.owner()
        self._observed.append((key, signal, owner))
        try:
            listener.watch(key, owner, signal)
            listener.listen_for(owner)
            await listener.heartbeat(key)
        except BaseException:
            self.unobserve(name, signal)
            raise

    def unobserve(self, name: str, signal: Signal) -> None:
        """End what ``observe`` began. The server forgets it when no heartbeat comes."""
        key = self._key(name)
        for observer in self._observed:
            if observer[:2] == (key, signal):
                self._observed.remove(observer)
                self._listener.unwatch(key, observer[2])
                self._listener.has_left(observer[2])
                return
