"""What must be deleted later: leases that nobody renewed, and clean-ups that failed.

A node lives as long as its session, which the wire keeps alive for all locks of a client. So it
is the client itself that ends a lease whose ttl is over, and takes away a waiter that was called
and did not come. A deletion that fails is tried again until it is done or the session has ended:
no node of ours stays behind without an owner.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...world import Job, World
from .node import NEVER, Node
from .wire import messages
from .wire.connection import Wire

RETRY_S = 0.25
BATCH_MAX = 100
EMPTY_S = 30.0  # how long an unused folder stays, on servers that do not remove it by themselves


class Sweeper:
    """Deletes the nodes of one client that are due."""

    def __init__(self, world: World, wire: Wire, nodes: dict[str, Node]) -> None:
        self._world = world
        self._wire = wire
        self._nodes = nodes
        self._folders: dict[str, float] = {}
        self._wake = world.signal()
        self._mutex = world.mutex()
        self._next = NEVER
        self._job: Job | None = None
        self._closing = False

    def nudge(self, at: float) -> None:
        """Something is due then."""
        if at < self._next:
            self._next = at
            self._wake.set()
        if self._job is None and not self._closing:
            with self._mutex:
                if self._job is None:
                    self._job = self._world.spawn(self._run(), "fencelock-sweeper")

    def leave_folder(self, folder: str) -> None:
        """Remove a folder later if nobody uses it by then."""
        self._folders[folder] = self._world.now() + EMPTY_S
        self.nudge(self._folders[folder])

    def stop(self) -> None:
        self._closing = True
        self._wake.set()

    async def close(self, deadline: float) -> None:
        self.stop()
        if self._job is not None:
            await self._job.join(deadline)

    async def _run(self) -> None:
        while not self._closing:
            self._next = NEVER
            clean = await self._sweep()
            soonest = min([node.until for node in list(self._nodes.values())], default=NEVER)
            soonest = min([soonest, *list(self._folders.values())])
            if not clean:
                soonest = max(soonest, self._world.now() + RETRY_S)
            self._next = min(self._next, soonest)
            await self._world.wait(self._wake, None if self._next == NEVER else self._next)
            self._wake.clear()

    async def _sweep(self) -> bool:
        """Delete what is due; False when something is left."""
        now = self._world.now()
        due = [node for node in list(self._nodes.values()) if node.until <= now and node.doom(now)]
        folders = [folder for folder, at in list(self._folders.items()) if at <= now]
        try:
            for start in range(0, len(due), BATCH_MAX):
                await self._delete(due[start : start + BATCH_MAX])
            for folder in folders:
                await self._wire.call(messages.delete(folder))
                self._folders.pop(folder, None)
        except Exception:  # a sweeper that dies would leave all that is due later
            return False
        return True

    async def _delete(self, nodes: Sequence[Node]) -> None:
        session = self._wire.session
        for node in nodes:
            if node.child is None and not node.is_over(session):
                await locate(self._wire, node)
        alive = [node for node in nodes if node.child and not node.is_over(session)]
        if alive:
            await self._wire.call(*[messages.delete(node.path) for node in alive])
        for node in nodes:
            if self._nodes.get(node.owner) is node:
                del self._nodes[node.owner]


async def locate(wire: Wire, node: Node, *, anybody: bool = False) -> list[str]:
    """Find a node whose creation was not answered, and return the children of its folder.

    The server first catches up with its leader: the creation may have been made through another.
    What an earlier session of ours has left behind is not it; ``anybody`` takes that as well.
    """
    folder = node.folder
    _, listed = await wire.call(messages.sync(folder), messages.children(folder))
    children: list[str] = [] if isinstance(listed, Exception) else listed
    alike = [child for child in children if child.startswith(node.prefix)]
    stats = await wire.call(*[messages.exists(f"{folder}/{child}") for child in alike])
    for child, stat in zip(alike, stats, strict=True):
        if stat is not None and (anybody or stat.session == wire.session):
            node.child, node.fence, node.session = child, stat.czxid, stat.session
    return children
