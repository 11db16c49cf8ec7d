"""What a simulated client does with an election, and with work that is done once in a window.

The recipes are the package's own: here they are only called, and what comes of it is written down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fencelock._client.facade import LeaseBase
from fencelock._client.lock_options import LockSpec
from fencelock.errors import EngineError, FencelockError
from fencelock.judge.checkers.recipes import SKIPPED
from fencelock.recipes.aio import Once
from fencelock.recipes.election import LeaderElection
from fencelock.sim.world import Cancelled
from fencelock.world import sleep
from tests.sim.backends import NAME
from tests.sim.plan import Visit

if TYPE_CHECKING:
    from tests.sim.client import Client

EVERY_S = 1.0  # the length of a window


class _Election(LeaderElection):
    """The election of a client that writes down when it gives a term back."""

    def __init__(self, client: Client, ttl: float) -> None:
        cores: Any = client
        super().__init__(cores, NAME, ttl)
        self._client = client

    async def release(self, term: LeaseBase) -> bool:
        return await self._client.release(term._hold)


class Campaigns:
    """Campaign, lead for a while and resign; look now and then at who leads."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def visit(self, visit: Visit) -> None:
        client, election = self._client, _Election(self._client, visit.ttl)
        await self._look(election)
        hold = await client.acquire(client.spec(visit), visit.timeout)
        if hold is None:
            return
        term: Any = hold
        await election.won(term)
        try:
            await client.work(hold.tenure, visit)
            await self._look(election)
        except FencelockError as error:
            client.world.simulation.note(client.name, type(error).__name__)
        finally:
            await election.resign()

    async def observe(self) -> None:
        """See every change of the leader; begin anew after an outage."""
        client = self._client
        while True:
            watch = _Election(client, EVERY_S).watch()
            try:
                await watch.begin()
                while True:
                    op = client.begin("look", None)
                    fence, kind = 0, "unknown"
                    try:
                        leader = await watch.next()
                        fence, kind = leader.fence if leader else 0, "ok"
                    finally:
                        client.end("look", op, kind, fence)
            except FencelockError as error:
                client.world.simulation.note(client.name, type(error).__name__)
                await sleep(client.world, EVERY_S)
            finally:
                await watch.end()

    async def _look(self, election: LeaderElection) -> None:
        client = self._client
        op = client.begin("look", None)
        fence, kind = 0, "unknown"
        try:
            leader = await election.leader()
            fence, kind = leader.fence if leader else 0, "ok"
        except FencelockError:
            kind = "fail"
        finally:
            client.end("look", op, kind, fence)


class WorkFailed(Exception):
    """What work raises, as planned."""


class Windows:
    """Do the work of a window, unless that was done."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def observe(self) -> None:
        """There is nothing to see."""

    async def visit(self, visit: Visit) -> None:
        client = self._client
        once = Once(_lock(client, client.spec(visit)), EVERY_S)
        window = once._schedule.window()
        op = client.begin("run", None, value=window.number)
        kind, detail = "unknown", "cancelled"
        began = False
        try:
            async with once as turn:
                if turn is None:
                    kind, detail = "fail", SKIPPED
                else:
                    began = True
                    await sleep(client.world, visit.hold)
                    if visit.fails:
                        raise WorkFailed
            if began:
                kind, detail = "ok", ""
        except WorkFailed:
            kind, detail = "fail", "it raised"
        except FencelockError as error:
            nothing = not began and isinstance(error, EngineError)
            kind, detail = "fail" if nothing else "unknown", str(error)
        except Cancelled:
            detail = "cancelled"
            raise
        finally:
            client.end("run", op, kind, detail=detail)


def _lock(client: Client, spec: LockSpec) -> Any:
    """A lock, in so far as a recipe needs one."""

    class Described:
        name = spec.name
        _cores = client
        _spec = spec

    return Described()


VISITS: dict[str, Callable[[Client], Campaigns | Windows]] = {
    "election": Campaigns,
    "once": Windows,
}
