"""An engine that fails on demand: it wraps another one, and switches say what goes wrong.

    faults = Faults()
    client = faulty.connect("sqlite:///locks.db", faults)
    with client.lock("seat:1A", ttl=5) as lease:
        faults.outage("renew")                # what does my program do when this goes on?

* Every switch takes the verbs that it applies to; without any it applies to all that need an
  answer from the store.
* Faults use the methods of the World only, so they work under threads, in asyncio and in the
  simulator. Any thread may turn a switch; it applies to calls that begin later, except that
  ``heal()`` also releases those that hang.
* A call that is delayed for longer than its caller waits ends as it does over a real network: with
  OutcomeUnknown, and a request that has not reached the engine by then never does.
* ``faults.calls`` records what reached the engine, with its outcome and time: wait for that, not
  for time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from .. import aio, engines, sync
from .._client.client import Core
from ..engine import Engine, Verification
from ..errors import OutcomeUnknown, Unavailable
from ..model import Busy, Finding, Gone, Grant, Holding, Request, State, Together
from ..world import Signal, World, sleep

T = TypeVar("T")

ANSWERED = (
    "open", "acquire", "renew", "release", "withdraw", "inspect", "watch", "revoke", "scan",
    "announce", "observe", "remember", "recall", "forget",
)  # fmt: skip
VERBS = (
    *ANSWERED,
    "unwatch",
    "unobserve",
    "close",
)  # letting go needs no answer: it fails only when named

Outcome: TypeAlias = Literal["under way", "answered", "raised", "lost", "refused"]
Where: TypeAlias = Literal["before", "after"]


class Call:
    """One call to the engine, as ``Faults.calls`` records it."""

    def __init__(self, verb: str, names: Sequence[str], began_at: float) -> None:
        self.verb = verb
        self.names = tuple(names)
        self.began_at = began_at
        self.ended_at: float | None = None
        self.reached = False
        """Whether it reached the wrapped engine."""
        self.outcome: Outcome = "under way"

    def __repr__(self) -> str:
        return f"<Call {self.verb} {', '.join(self.names)} {self.outcome}>"


class Faults:
    """The present faults of an engine. At first there are none."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._delays: dict[tuple[str, Where], float] = {}
        self._hangs: set[tuple[str, Where]] = set()
        self._failures: dict[str, Callable[[], Exception]] = {}
        self._losses: dict[tuple[str, Where], int] = {}
        self._hanging: set[Signal] = set()

    def delay(self, *verbs: str, before: float = 0.0, after: float = 0.0) -> None:
        """Delay calls before they reach the engine, and their answers on the way to the caller."""
        for verb in _check(verbs):
            self._delays[verb, "before"] = before
            self._delays[verb, "after"] = after

    def hang(self, *verbs: str, where: Where = "before") -> None:
        """Hold calls back until ``heal()``, before they reach the engine or after its answer."""
        self._hangs.update((verb, where) for verb in _check(verbs))

    def outage(self, *verbs: str) -> None:
        """Refuse calls with Unavailable until ``heal()``; the engine sees nothing of them."""
        self.fail(lambda: Unavailable("an outage, made by fencelock.testing.faulty"), *verbs)

    def fail(self, error: Callable[[], Exception], *verbs: str) -> None:
        """Refuse calls with an error of your own until ``heal()``."""
        self._failures.update(dict.fromkeys(_check(verbs), error))

    def lose_requests(self, count: int, *verbs: str) -> None:
        """Lose the next requests of each verb: OutcomeUnknown, and they do not reach the engine."""
        self._losses.update({(verb, "before"): count for verb in _check(verbs)})

    def lose_replies(self, count: int, *verbs: str) -> None:
        """Lose the next replies of each verb: the engine did it, the caller gets OutcomeUnknown."""
        self._losses.update({(verb, "after"): count for verb in _check(verbs)})

    def heal(self) -> None:
        """Turn all switches off, and release the calls that hang."""
        for switches in (self._delays, self._failures, self._losses, self._hangs):
            switches.clear()
        for signal in list(self._hanging):
            signal.set()

    def seen(self, verb: str, outcome: Outcome | None = None) -> list[Call]:
        """Return the calls of a verb, or those with one outcome."""
        return [c for c in list(self.calls) if c.verb == verb and outcome in (None, c.outcome)]

    def refusal(self, verb: str) -> Exception | None:
        """Return the error that a call raises instead of reaching the engine, or None."""
        make = self._failures.get(verb)
        return None if make is None else make()

    def loses(self, verb: str, where: Where) -> bool:
        """Return whether this message is lost, and count it down."""
        left = self._losses.get((verb, where), 0)
        self._losses[verb, where] = max(0, left - 1)
        return left > 0

    async def pause(self, world: World, verb: str, where: Where) -> bool:
        """Wait for as long as the switches say; return False if the caller's limit came first."""
        if seconds := self._delays.get((verb, where), 0.0):
            is_too_long = world.now() + seconds > world.limit()
            await sleep(world, seconds)
            if is_too_long:
                return False
        signal = world.signal()
        self._hanging.add(signal)
        try:
            return (verb, where) not in self._hangs or await world.wait(signal, None)
        finally:
            self._hanging.discard(signal)


class FaultyEngine(Engine):
    """A wrapper of another engine, with faults between it and its client.

    A push that carries a grant is not passed on as such: the waiter calls ``acquire`` for it, whose
    answer can be lost.
    """

    schemes = ("faulty",)

    def __init__(self, inner: Engine, faults: Faults) -> None:
        super().__init__(inner.world, inner.address)
        self.traits = inner.traits
        self.takes_keys = inner.takes_keys
        self.commits = inner.commits
        self.session_bound = inner.session_bound
        self.inner = inner
        self.faults = faults
        inner.on_gone = self._tell

    def _tell(self, owners: Collection[str], gone: Gone) -> None:
        """Pass on what the engine noticed by itself; no fault applies, since nothing was sent."""
        if self.on_gone is not None:
            self.on_gone(owners, gone)

    async def _call(
        self, verb: str, names: Sequence[str], forward: Callable[[], Coroutine[Any, Any, T]]
    ) -> T:
        faults, world = self.faults, self.world
        call = Call(verb, names, world.now())
        faults.calls.append(call)
        try:
            if not await faults.pause(world, verb, "before"):
                raise _silent(call)
            if (refusal := faults.refusal(verb)) is not None:
                call.outcome = "refused"
                raise refusal
            if faults.loses(verb, "before"):
                call.outcome = "lost"
                raise OutcomeUnknown(f"the request of {verb} was lost on its way to the engine")
            call.reached = True
            answer = await forward()
            if not await faults.pause(world, verb, "after"):
                raise _silent(call)
            if faults.loses(verb, "after"):
                call.outcome = "lost"
                raise OutcomeUnknown(f"the reply to {verb} was lost on its way from the engine")
            call.outcome = "answered"
            return answer
        finally:
            call.ended_at = world.now()
            if call.outcome == "under way":
                call.outcome = "raised"  # by the engine, or by a cancellation of the call

    async def open(self) -> None:
        await self._call("open", (), self.inner.open)
        self.traits = self.inner.traits  # an engine may have refined them on opening

    async def close(self) -> None:
        await self._call("close", (), self.inner.close)

    def close_nowait(self) -> None:
        self.inner.close_nowait()

    async def acquire(self, request: Request) -> Grant | Busy:
        return await self._call("acquire", [request.name], partial(self.inner.acquire, request))

    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        names = [request.name for request in requests]
        return await self._call("acquire", names, partial(self.inner.acquire_all, requests))

    async def release_all(self, grants: Sequence[Grant]) -> list[bool] | None:
        names = [grant.name for grant in grants]
        return await self._call("release", names, partial(self.inner.release_all, grants))

    async def end_in(self, grant: Grant, seconds: float) -> bool:
        return await self._call("release", [grant.name], partial(self.inner.end_in, grant, seconds))

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        names = [grant.name for grant in grants]
        return await self._call("renew", names, partial(self.inner.renew, grants))

    async def release(self, grant: Grant) -> bool:
        return await self._call("release", [grant.name], partial(self.inner.release, grant))

    async def withdraw(self, request: Request) -> None:
        await self._call("withdraw", [request.name], partial(self.inner.withdraw, request))

    async def inspect(self, name: str) -> State:
        return await self._call("inspect", [name], partial(self.inner.inspect, name))

    async def watch(self, request: Request, signal: Signal) -> None:
        await self._call("watch", [request.name], partial(self.inner.watch, request, signal))

    async def wait(self, signal: Signal, deadline: float) -> None:
        await self.inner.wait(signal, deadline)

    async def unwatch(self, request: Request) -> None:
        await self._call("unwatch", [request.name], partial(self.inner.unwatch, request))

    async def announce(self, name: str) -> None:
        await self._call("announce", [name], partial(self.inner.announce, name))

    async def observe(self, name: str, signal: Signal) -> None:
        await self._call("observe", [name], partial(self.inner.observe, name, signal))

    async def unobserve(self, name: str, signal: Signal) -> None:
        await self._call("unobserve", [name], partial(self.inner.unobserve, name, signal))

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        forward = partial(self.inner.remember, name, item, number, keep)
        await self._call("remember", [name], forward)

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._call("recall", [name], partial(self.inner.recall, name))

    async def forget(self, name: str) -> None:
        await self._call("forget", [name], partial(self.inner.forget, name))

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._call("revoke", [name], partial(self.inner.revoke, name, reason))

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._call("scan", [prefix], partial(self.inner.scan, prefix))

    async def diagnose(self) -> list[Finding]:
        return await self.inner.diagnose()

    def mark_failed(self, grant: Grant) -> None:
        self.inner.mark_failed(grant)

    def why_gone(self, grant: Grant) -> Gone:
        return self.inner.why_gone(grant)

    def connection(self, grant: Grant) -> object:
        return self.inner.connection(grant)

    def verification(self, grant: Grant) -> Verification:
        return self.inner.verification(grant)


def connect(url: str | None, faults: Faults, **options: object) -> sync.Client:
    """Return a blocking client whose engine has these faults."""
    from ..worlds.threads import ThreadsWorld, drive

    core: Core[sync.Lease] = _core(ThreadsWorld(), url, faults, options, sync.Lease)
    drive(core.open())
    return sync.Client(core)


async def connect_aio(url: str | None, faults: Faults, **options: object) -> aio.Client:
    """Return an asyncio client whose engine has these faults."""
    from ..worlds.aio import AioWorld

    core: Core[aio.Lease] = _core(AioWorld(), url, faults, options, aio.Lease)
    await core.open()
    return aio.Client(core)


def _core(
    world: World, url: str | None, faults: Faults, options: dict[str, object], lease: Any
) -> Core[Any]:
    engine, address = engines.resolve(url, options)
    return Core(world, lambda: FaultyEngine(engine(world, address), faults), lease)


def _silent(call: Call) -> OutcomeUnknown:
    call.outcome = "lost"
    return OutcomeUnknown(f"the engine did not answer {call.verb} in time")


def _check(verbs: Iterable[str]) -> Sequence[str]:
    chosen = tuple(verbs)
    for verb in chosen:
        if verb not in VERBS:
            raise ValueError(f"an engine has no verb {verb!r}; its verbs: {', '.join(VERBS)}")
    return chosen or ANSWERED
