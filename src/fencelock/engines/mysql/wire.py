"""What a mode asks of its wire, in whatever flavor: new links."""

from __future__ import annotations

from typing import Protocol

from ...wires.disconnect_monitor import Hangups
from ...world import World
from .link import Link
from .settings import Settings
from .transaction import Transaction


class Wire(Protocol):
    """A module that connects: ``wire_threads`` or ``wire_aio``."""

    async def dial(self, world: World, settings: Settings, greeting: str = "") -> Link:
        """Connect and set the session up."""
        ...

    def lanes(self, pool: int) -> int:
        """How many questions are under way, of so many links, before callers share one."""
        ...

    def hangups(self) -> Hangups:
        """Who tells that the server has closed a connection."""
        ...

    async def join(self, world: World, settings: Settings) -> Transaction:
        """Connect for a transaction that the caller may join."""
        ...
