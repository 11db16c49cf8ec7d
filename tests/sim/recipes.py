"""What a simulated client does with a recipe that is more than a visit to a lock: an election, work
that is done once in a window, several locks at once, a barrier, a latch.

The recipes are the package's own: here they are only called, and what comes of it is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fencelock._client.facade import LeaseBase, hold_of
from fencelock._client.hold_state import HoldState
from fencelock._client.lock_options import LockSpec
from fencelock.errors import AcquireTimeout, EngineError, FencelockError, OutcomeUnknown
from fencelock.judge.checkers.recipes import SKIPPED
from fencelock.recipes.aio import Once
from fencelock.recipes.barrier import Rendezvous
from fencelock.recipes.election import LeaderElection
from fencelock.recipes.latch import CountDown
from fencelock.recipes.several import acquire_all, in_order, release_all
from fencelock.sim.resource import REGISTER, RegisterClient
from fencelock.sim.world import Cancelled, SimWorld
from fencelock.world import sleep
from tests.sim.plan import NAME, Latch, Visit

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


class Groups:
    """Hold several locks together, and change what each of them protects."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def observe(self) -> None:
        """There is nothing to see."""

    async def visit(self, visit: Visit) -> None:
        client = self._client
        spec = client.spec(visit)
        specs = in_order(visit.names, lambda name: spec._replace(name=name))
        holds = await self._acquire(specs, visit.timeout)
        try:
            for hold in holds:
                await self._work(hold, visit.hold / len(holds))
        except FencelockError as error:
            client.world.simulation.note(client.name, type(error).__name__)
        finally:
            if holds:
                await self._release(holds)

    async def _acquire(
        self, specs: Sequence[LockSpec], timeout: float | None
    ) -> Sequence[HoldState]:
        """Acquire all, and write down how it ended for each of them; return what is held."""
        client, core = self._client, self._client.core
        group = client.number()
        ops = {
            spec.name: client.begin("acquire", timeout, value=group, name=spec.name)
            for spec in specs
        }
        kind, detail, busy, holds = "unknown", "cancelled", "", dict[str, HoldState]()
        try:
            answer: Any = await acquire_all(core, specs, timeout)
            if isinstance(answer, tuple):
                kind, detail, busy = "fail", "it needs all", answer[0]
            else:
                holds = {hold_of(lease).grant.name: hold_of(lease) for lease in answer}
                kind, detail = "fail", "left out"
        except OutcomeUnknown as error:
            kind, detail = "unknown", str(error)
        except FencelockError as error:
            kind, detail = "fail", f"{type(error).__name__}: {error}"
        except Cancelled:
            kind = "fail" if client.is_kind else "unknown"
            raise
        finally:
            for spec in specs:
                op, hold = ops[spec.name], holds.get(spec.name)
                if hold is not None:
                    client.end("acquire", op, "ok", hold.grant.fence, ttl=spec.ttl)
                else:
                    word = "busy" if busy == spec.name else detail
                    client.end("acquire", op, kind, detail=word)
                    if kind == "fail" and word != "cancelled":
                        client.failed(spec.name, op)
        return list(holds.values())

    async def _work(self, hold: HoldState, seconds: float) -> None:
        client, name = self._client, hold.grant.name
        register = client.register(REGISTER if name == NAME else f"{REGISTER}#{name}")
        register_client = RegisterClient(
            client.network, register, client.world, client.host, client.history
        )
        check = client.core.lifecycle.check
        await increase(
            register_client, client.world, hold.grant.fence, seconds, lambda: check(hold)
        )

    async def _release(self, holds: Sequence[HoldState]) -> None:
        client = self._client
        leases: Any = [client.lease_of(hold) for hold in holds]
        ops = {
            hold: client.begin("release", None, hold.grant.fence, name=hold.grant.name)
            for hold in holds
        }
        known = set[HoldState]()
        try:
            await release_all(client.core, leases)
            known = set(holds)
        except FencelockError as error:
            client.world.simulation.note(client.name, type(error).__name__)
            known = {hold for hold in holds if hold.released and not hold.owed}
        finally:
            for hold, op in ops.items():
                freed = "fail" if hold.loss is not None else "ok"
                client.end("release", op, freed if hold in known else "unknown", hold.grant.fence)


class Meetings:
    """Wait for the other parties at a barrier."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def observe(self) -> None:
        """There is nothing to see."""

    async def visit(self, visit: Visit) -> None:
        client, spec = self._client, self._client.spec(visit)
        cores: Any = client
        meeting = Rendezvous(cores, NAME, spec)
        op = client.begin("meet", visit.timeout, share=spec.share, name=spec.name)
        kind, detail, slot = "unknown", "cancelled", None
        try:
            slot = await meeting.wait(visit.timeout)
            kind, detail = "ok", ""
        except AcquireTimeout:
            kind, detail = "fail", "not in time"
        except FencelockError as error:
            kind, detail = "unknown" if error.may_have_happened else "fail", str(error)
        finally:
            client.end("meet", op, kind, client.won.pop(op, 0), detail, slot=slot)


class CountDowns:
    """Count a latch down, or await it, or both; each visit comes to the next of several latches."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def observe(self) -> None:
        """There is nothing to see."""

    async def visit(self, visit: Visit) -> None:
        latch = visit.latch
        assert latch is not None
        cores: Any = self._client
        counts = CountDown(cores, f"{NAME}-{latch.number}", latch.limit, 60.0)
        if latch.counts:
            await self._count(counts, latch)
        if latch.awaits:
            await self._await(counts, latch, visit.timeout)

    async def _count(self, counts: CountDown, latch: Latch) -> None:
        client, name = self._client, f"{NAME}-{latch.number}"
        op = client.begin("count", None, name=name, limit=latch.limit)
        kind, left = "unknown", None
        try:
            left = await counts.count_down(latch.by or None)
            kind = "ok"
        except FencelockError as error:
            client.world.simulation.note(client.name, type(error).__name__)
        finally:
            client.end("count", op, kind, detail=latch.by, value=left)

    async def _await(self, counts: CountDown, latch: Latch, timeout: float | None) -> None:
        client, name = self._client, f"{NAME}-{latch.number}"
        op = client.begin("await", timeout, name=name, limit=latch.limit)
        kind, detail = "unknown", ""
        try:
            await counts.wait(timeout)
            kind = "ok"
        except AcquireTimeout:
            kind, detail = "fail", "not in time"
        except FencelockError as error:
            kind, detail = "fail", str(error)
        finally:
            client.end("await", op, kind, detail=detail)


VISITS: dict[str, Callable[[Client], Campaigns | Windows | Groups | Meetings | CountDowns]] = {
    "election": Campaigns,
    "once": Windows,
    "several": Groups,
    "barrier": Meetings,
    "latch": CountDowns,
}


async def increase(
    client: RegisterClient, world: SimWorld, fence: int, seconds: float, check: Callable[[], object]
) -> None:
    """Read the value, work, check, and write value + 1: the update that must not be lost."""
    value = await client.read(fence)
    await sleep(world, seconds * 0.7)
    check()
    await sleep(world, seconds * 0.3)
    await client.write(fence, value + 1)
