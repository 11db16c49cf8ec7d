"""Open an engine once for all callers that need it at the same time.

An exception of a signal handler may end the call that opens it at any bytecode. So the ``OpenCall``
of that call lives in the call and nowhere else: once it is dead, the next caller opens the engine.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from ..errors import Unavailable
from ..world import Signal, World


class OpenCall:
    """One call that opens the engine, or waits for another one that does."""

    def __init__(self, ended: Signal) -> None:
        self.generation = -1
        """The generation in which it opens the engine, while it does."""
        self.ended = ended


class SingleOpen:
    """The call that opens the engine of a client now, if there is one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._mutex = world.mutex()
        self._current: Callable[[], OpenCall | None] = lambda: None

    async def begin(self, mine: OpenCall, generation: int) -> bool:
        """Make a call the one that opens the engine; if another one does, wait, and return False.

        The caller is in an ``until`` block. It ends its ``OpenCall`` when it has opened the engine,
        or has failed to.
        """
        world = self._world
        with self._mutex:
            other = self._current()
            if other is None or other.generation != generation:
                mine.generation = generation
                self._current = weakref.ref(mine)
                return True
        ended, other = other.ended, None  # one who waits must not keep it alive
        until = min(world.limit(), world.now() + 1.0)  # that call may be interrupted
        if not await world.wait(ended, until) and until == world.limit():
            raise Unavailable("the engine was not reached in time; nothing was sent")
        return False
