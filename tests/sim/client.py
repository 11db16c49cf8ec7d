"""A simulated client: a process that visits the lock as planned, and writes down what it does.

What is more than a visit to a lock, a campaign or the work of a window, is in `recipes.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fencelock._client.client import Core
from fencelock._client.hold_state import HoldState
from fencelock._client.lock_options import LockSpec, make_lock_spec
from fencelock.engine import Address, Engine
from fencelock.errors import EngineError, FencelockError, LeaseLost, NotAcquired, OutcomeUnknown
from fencelock.judge import History
from fencelock.model import Busy, Grant, Request, Share, Together, Traits, role_of
from fencelock.sim.network import Host, Network
from fencelock.sim.resource import Register, RegisterClient
from fencelock.sim.world import Cancelled, Task
from fencelock.world import sleep
from tests.sim.plan import NAME, Visit
from tests.sim.recipes import VISITS, increase

if TYPE_CHECKING:
    from tests.sim.harness import Run

REACH_S = 1.0  # between two attempts to open a client


class Hold:
    """A lease, in so far as core and the recipes need one."""

    def __init__(self, core: Core[Hold], tenure: HoldState) -> None:
        self._core = core
        self._hold = tenure

    @property
    def tenure(self) -> HoldState:
        return self._hold

    def check(self) -> None:
        self._core.lifecycle.check(self._hold)

    async def __aenter__(self) -> Hold:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._core.lifecycle.leave(self._hold, error)


class Client:
    """One process with one client, which several tasks of it use to visit the lock."""

    def __init__(self, run: Run, name: str, visits: tuple[Visit, ...]) -> None:
        random = run.simulation.random
        self._run = run
        self.name = name
        self.planned = visits
        pace = 1 + (random() - 0.5) * 0.006  # two such clocks stay within the drift
        self.world = run.simulation.world(name, ahead=random() * 1e5, pace=pace)
        self.host = Host(name)
        self.core: Core[Hold] = Core(self.world, self._engine, self._lease)
        self.tenures: list[HoldState] = []
        self.visits: list[Task] = []
        self._calls: dict[Task | None, dict[str, int]] = {}
        """The operations that each task is in, by the name that they are about."""
        self.won: dict[int, int] = {}
        """The fence of each operation that got one."""
        self.is_gone = False

    def _engine(self) -> Engine:
        engine: Any = self._run.backend.engine(self.world, self.host)
        ask, ask_all = engine.acquire, engine.acquire_all

        def acquire(request: Request) -> Awaitable[Grant | Busy]:
            self._asked(request)
            answer: Awaitable[Grant | Busy] = ask(request)
            return answer

        def acquire_all(requests: Sequence[Request]) -> Awaitable[Together]:
            for request in requests:
                self._asked(request)
            answer: Awaitable[Together] = ask_all(requests)
            return answer

        engine.acquire, engine.acquire_all = acquire, acquire_all
        return engine  # type: ignore[no-any-return]

    def _asked(self, request: Request) -> None:
        op = self._op(request.name)
        owner = self._run.backend.owner(request.owner)
        self._run.observers[request.name].asked(owner, self.name, op)

    def _op(self, name: str) -> int:
        """The operation of this task that is about a name."""
        return self._calls.get(self.world.simulation.current, {}).get(name, 0)

    def _lease(self, core: Core[Hold], tenure: HoldState) -> Hold:
        name, fence = tenure.grant.name, tenure.grant.fence
        tenure.hook = partial(self._run.history.note, self.name, "lost", name, fence)
        self.won[self._op(name)] = fence
        self.tenures.append(tenure)
        return Hold(core, tenure)

    @property
    def is_kind(self) -> bool:
        """Whether everybody can clean up after itself."""
        return self._run.is_kind

    @property
    def network(self) -> Network:
        return self._run.network

    @property
    def history(self) -> History:
        return self._run.history

    def number(self) -> int:
        """A number that no other has: that of the next event."""
        return len(self._run.history)

    def register(self, name: str) -> Register:
        """What a lock protects."""
        return self._run.register_of(name)

    def failed(self, name: str, op: int) -> None:
        """An attempt is said to have failed."""
        self._run.observers[name].failed(op)

    def lease_of(self, hold: HoldState) -> Hold:
        return Hold(self.core, hold)

    @property
    def address(self) -> Address:
        return self.core.engine.address

    @property
    def traits(self) -> Traits:
        return self.core.engine.traits

    def here(self) -> Core[Hold]:
        """As the recipes ask for it."""
        return self.core

    def role(self, share: Share | None) -> str:
        """In which role it holds what it asked for."""
        election = self._run.plan.recipe == "election"
        return "leader" if election else "" if share is None else role_of(share)

    async def live(self) -> None:
        """Come as planned; close the client when all visits are over."""
        await self._open()
        visits: Callable[[Visit], Coroutine[Any, Any, None]] = self._visit
        observing: list[Task] = []
        if self._run.plan.recipe in VISITS:
            recipe = VISITS[self._run.plan.recipe](self)
            visits = recipe.visit
            observing = [self.world.simulation.start(recipe.observe(), self.world, "observe")]
        for visit in self.planned:
            await sleep(self.world, visit.after)
            task = self.world.simulation.start(visits(visit), self.world, "visit")
            self.visits.append(task)
            if not visit.joins:
                await self.world.wait(task.ended, None)
        for task in self.visits:
            await self.world.wait(task.ended, None)
        for task in observing:
            task.cancel()
            await self.world.wait(task.ended, None)
        await self.core.close()
        self.leave()

    def leave(self) -> None:
        """It comes no more."""
        if not self.is_gone:
            self.is_gone = True
            self._run.leave()

    def cancel(self, task: Task) -> None:
        """Cancel a visit, in the midst of a call or not."""
        if self._run.plan.recipe != "once":  # which is a block of work, and not one call
            for name, op in self._calls.get(task, {}).items():
                self._run.history.note(self.name, "cancel", name, op=op)
        task.cancel()

    async def _open(self) -> None:
        while True:
            try:
                await self.core.open()
                return
            except (EngineError, OutcomeUnknown):
                await sleep(self.world, REACH_S)

    async def _visit(self, visit: Visit) -> None:
        hold = await self.acquire(self.spec(visit), visit.timeout)
        if hold is None:
            return
        try:
            await self.work(hold.tenure, visit)
        except FencelockError as error:
            self.world.simulation.note(self.name, type(error).__name__)
        finally:
            await self.release(hold.tenure)

    def spec(self, visit: Visit) -> LockSpec:
        """What a visit asks for."""
        name = self._run.backend.name
        spec = make_lock_spec(name, visit.ttl, None, visit.renews, None, None, False, None, None)
        return spec._replace(timeout=visit.timeout, share=visit.share)

    async def acquire(self, spec: LockSpec, timeout: float | None) -> Hold | None:
        """Acquire, and write down how it ended."""
        op = self.begin("acquire", timeout, share=spec.share, name=spec.name)
        end, observer = partial(self.end, "acquire", op), self._run.observers[spec.name]
        try:
            hold = await self.core.attempt(spec, timeout)
        except (EngineError, NotAcquired) as error:
            end("fail", detail=str(error))
            observer.failed(op)
            return None
        except OutcomeUnknown as error:
            end("unknown", detail=str(error))
            return None
        except Cancelled:
            end("fail" if self._run.is_kind else "unknown", detail="cancelled")
            raise
        if isinstance(hold, Busy):
            end("fail", detail="busy")
            observer.failed(op)
            return None
        share = hold.tenure.grant.share
        end("ok", hold.tenure.grant.fence, ttl=spec.ttl, slot=share.slot if share else None)
        return hold

    def begin(
        self,
        verb: str,
        timeout: float | None,
        fence: int = 0,
        share: Share | None = None,
        value: int | None = None,
        name: str = NAME,
        limit: int = 0,
    ) -> int:
        """An operation of this task begins, and should not last longer than this."""
        world = self.world
        deadline = 0.0 if timeout is None else world.true_time(world.now() + timeout)
        units, limit = (0, limit) if share is None else (share.units, share.limit)
        op = self._run.history.invoke(
            self.name, verb, name, fence, value, deadline, self.role(share), units, limit
        )
        self._calls.setdefault(world.simulation.current, {})[name] = op
        return op

    def end(
        self,
        verb: str,
        op: int,
        kind: str,
        fence: int = 0,
        detail: str = "",
        ttl: float = 0.0,
        slot: int | None = None,
        value: int | None = None,
    ) -> None:
        """It has ended."""
        mine = self._calls[self.world.simulation.current]
        (name,) = (name for name, number in mine.items() if number == op)
        del mine[name]
        self._run.history.end(kind, self.name, verb, op, name, fence, value, detail, ttl, slot)

    async def work(self, tenure: HoldState, visit: Visit) -> None:
        """Change the register, or read it, and use the lease for a while; stop when it is lost."""
        check, fence = partial(self.core.lifecycle.check, tenure), tenure.grant.fence
        client = self._register_client(tenure)
        if client.role == "read":
            await client.read(fence)
        else:
            await increase(client, self.world, fence, visit.hold / 2, check)
        if visit.renew_ttl is not None:
            await self._renew(tenure, visit.renew_ttl or None)
        if visit.downgrades:
            await self._downgrade(tenure)
            await self._register_client(tenure).read(fence)
        await sleep(self.world, visit.hold / 2)
        check()

    def _register_client(self, tenure: HoldState) -> RegisterClient:
        run, share = self._run, tenure.grant.share
        register = run.register(share.slot if share else None)
        role = tenure.role if share else ""
        return RegisterClient(run.network, register, self.world, self.host, run.history, role)

    async def _downgrade(self, tenure: HoldState) -> None:
        fence, share = tenure.grant.fence, tenure.grant.share
        op = self.begin("downgrade", self.core.lifecycle.remaining(tenure), fence, share)
        outcome = "unknown"
        try:
            await self.core.lifecycle.downgrade(tenure)
            outcome = "ok"
        except LeaseLost:
            outcome = "fail"
            raise
        finally:
            self.end("downgrade", op, outcome, fence)

    async def _renew(self, tenure: HoldState, ttl: float | None) -> None:
        fence = tenure.grant.fence
        share = tenure.grant.share
        op = self.begin("renew", self.core.lifecycle.remaining(tenure), fence, share)
        outcome = "unknown"
        try:
            await self.core.lifecycle.renew(tenure, ttl)
            outcome = "ok"
        except LeaseLost:
            outcome = "fail"
            raise
        finally:
            self.end("renew", op, outcome, fence)

    async def release(self, tenure: HoldState) -> bool:
        fence = tenure.grant.fence
        op = self.begin("release", None, fence, tenure.grant.share, name=tenure.grant.name)
        outcome, detail, freed = "unknown", "", False
        try:
            freed = await self.core.lifecycle.release(tenure)
            outcome = "ok" if freed else "fail"
        except FencelockError as error:
            outcome, detail = "unknown" if error.may_have_happened else "fail", str(error)
        finally:
            self.end("release", op, outcome, fence, detail)
        return freed
