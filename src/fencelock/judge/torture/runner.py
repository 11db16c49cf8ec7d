"""The run of one torture: it starts the clients, injects faults, and judges the history.

All names that it locks are its own, so that no other lock of the engine is touched, and what is
left of them is removed. The observer is this process: it starts and ends the others, and keeps the
counters. All times are on one clock that every process of the machine shares.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Self

from ... import sync
from ...engine import Engine
from ...errors import FencelockError, Unavailable, UsageError
from ...worlds import clock
from ..history import Event, History
from ..verdict import verdict
from . import network
from .adapters import MUTEX, WHO, Doubt, Failed, FencelockAdapter, Hold, LockAdapter, Wish
from .client_process import ClientProcess
from .counters import SharedCounters
from .nemesis import ON_THE_WIRE, Nemesis
from .network import Network
from .peers import OURS, open_adapter
from .run import (
    BOUND,
    SESSION_SHARE,
    SOON_S,
    Progress,
    Run,
    Settings,
    is_session_bound,
    promised,
    session_of,
    with_session,
)
from .workload import Plan

CLIENTS_PER_NAME = 4
TICK_S = 0.02
TICK_OF_SESSION_S = 2.0  # sessions end at a tick of the server, two seconds by default
PREFIX = "fencelock-torture-"
ENDED = "it ended by itself"


def torture(settings: Settings, watch: Callable[[Progress], None] = lambda _: None) -> Run:
    """Torture one engine for a bounded time."""
    with ExitStack() as stack:
        settings = settings._replace(url=with_session(settings.url, settings.ttl))
        ours = FencelockAdapter(settings.url)
        stack.callback(ours.close)
        engine = ours.client._core.engine  # pyright: ignore[reportPrivateUsage]
        if ours.client.traits.scope == "process":
            raise UsageError(
                f"{ours.client.url} lives in one process, and a torture needs several: name "
                "another engine, such as sqlite:///locks.db"
            )
        ours.describe(_all_of(settings), f"{PREFIX}share", settings.ttl, 0.0)
        return _Torture(settings, ours, engine, stack).play(watch)


class _Torture:
    """Everything that takes part in one torture."""

    def __init__(
        self, settings: Settings, ours: FencelockAdapter, engine: Engine, stack: ExitStack
    ) -> None:
        self._settings = settings
        self._ours = ours
        self._address = address = engine.address
        self._session = session_of(engine)
        self._origin = clock.now()
        self._began = 0.0
        self.prefix = f"{PREFIX}{secrets.token_hex(4)}-"
        groups = 1 + (settings.clients - 1) // (CLIENTS_PER_NAME + settings.semaphore)
        self._names = tuple(f"{self.prefix}{number + 1}" for number in range(groups))
        self._counters = SharedCounters(self._now)
        self._events: list[Event] = []
        self._audits: list[History] = []
        self._deaths: list[str] = []
        why_not = network.why_not(address)
        self._not_applicable = {
            fault: why_not for fault in settings.faults if fault in ON_THE_WIRE and why_not
        }
        if len(self._not_applicable) == len(settings.faults):
            raise UsageError(
                f"none of these faults can happen here ({', '.join(settings.faults)}): {why_not}. "
                "Name others, such as pause,kill"
            )
        self._networks = {} if why_not else self._wire(stack)
        self._auditor = self._auditors(stack)
        self._clients = [self._client(number) for number in range(settings.clients)]
        for client in self._clients:
            stack.callback(client.close)
        faults = [fault for fault in settings.faults if fault not in self._not_applicable]
        self._nemesis = Nemesis(self._clients, self._networks, faults, settings.seed, self._now)
        names = self._names if settings.library == OURS else ()
        self._queue_observer = stack.enter_context(QueueObserver(ours.client, names, self._now))

    def play(self, watch: Callable[[Progress], None]) -> Run:
        """Run the torture, bring it to rest, and judge it."""
        watch(self._progress(f"starts {len(self._clients)} clients"))
        for client in self._clients:
            client.start()
        for client in self._clients:
            if why := client.wait_ready():
                way = f" (this is its proxy before {self._address.public})"
                raise Unavailable(
                    f"{client.name} could not begin: {why}{way if self._networks else ''}"
                )
        self._began = self._now()
        until = time.monotonic() + self._settings.seconds
        while time.monotonic() < until:
            self._nemesis.step()
            self._revive()
            watch(self._progress())
            time.sleep(TICK_S)
        watch(self._progress("comes to rest"))
        self._rest()
        return self._judge()

    def _now(self) -> float:
        return clock.now() - self._origin

    def _wire(self, stack: ExitStack) -> dict[str, Network]:
        return {
            _name(number): stack.enter_context(Network(self._settings.url, self._address))
            for number in range(self._settings.clients)
        }

    def _auditors(self, stack: ExitStack) -> LockAdapter:
        if self._settings.library == OURS:
            auditor: LockAdapter = self._ours
        else:
            auditor = open_adapter(self._settings.library, self._settings.url)
            stack.callback(auditor.close)
        stack.callback(auditor.sweep, self.prefix)
        return auditor

    def _client(self, number: int) -> ClientProcess:
        settings, name = self._settings, _name(number)
        plan = Plan(
            client=name,
            url=self._networks[name].url if name in self._networks else settings.url,
            library=settings.library,
            flavor="asyncio" if number % 2 else "threads",
            names=self._names,
            ttl=max(settings.ttl, self._session * SESSION_SHARE),
            timeout=3 * max(settings.ttl, self._session) + SOON_S,
            seed=settings.seed * 7919 + number,
            origin=self._origin,
            limit=settings.semaphore,
            rw=settings.rw,
        )
        return ClientProcess(name, plan, self._counters)

    def _revive(self) -> None:
        """Restart clients that ended by themselves: each is a finding, but the work goes on."""
        for client in self._clients:
            if client.died():
                self._deaths.append(f"{client.name}: {client.trouble()}")
                client.kill()
                self._note(client.name, "crash", ENDED)
                self._note(client.name, "restart")
                client.start()

    def _rest(self) -> None:
        """Undo all faults, let every client finish, and check that nothing is left."""
        self._nemesis.end()
        for client in self._clients:
            client.stop()
        ttl = self._ttl()
        until = time.monotonic() + 3 * (ttl + SOON_S) + 3 * self._settings.ttl
        for client in self._clients:
            if not client.wait_done(until):
                self._note(client.name, "crash", "it did not end, and was killed")
            client.kill()
        for name in self._names:
            holds = [self._audit(name, ttl) for _ in range(self._settings.semaphore or 1)]
            for hold in filter(None, holds):
                hold.release()

    def _audit(self, name: str, ttl: float) -> Hold | None:
        """Acquire the lock as a newcomer: if it fails, something was left behind."""
        wish, auditor = _all_of(self._settings), self._auditor
        units, limit = wish.units
        begun = Event(self._now(), "auditor", "invoke", "acquire", 1, name)
        begun = begun._replace(role=wish.role, units=units, limit=limit)
        kind, fence, detail, hold = "fail", 0, "not in time", None
        length, within = self._settings.ttl, ttl + 2 * SOON_S
        try:
            if wish.role:
                hold = auditor.acquire_share(wish, name, length, within)
            else:
                hold = auditor.acquire(name, length, within)
        except (Doubt, Failed) as error:
            kind, detail = "unknown", str(error)
        ended = Event(self._now(), "auditor", kind, "acquire", 1, name, fence, None, detail)
        if hold is not None:
            until = hold.until and hold.until - self._origin
            ended = ended._replace(kind="ok", fence=hold.fence, detail="", slot=hold.slot)
            ended = ended._replace(until=until)
        self._audits.append(History([begun, ended]))
        return hold

    def _ttl(self) -> float:
        """Return for how many seconds the engine keeps a lock for a client that sends nothing."""
        session = self._session + TICK_OF_SESSION_S if self._session else 0.0
        return max(session, *(client.ttl for client in self._clients)) or self._settings.ttl

    def _note(self, client: str, verb: str, detail: str = "") -> None:
        self._events.append(Event(self._now(), client, "note", verb, detail=detail))

    def _progress(self, phase: str = "") -> Progress:
        counters = self._counters
        return Progress(
            self._settings.library,
            self._now() - self._began,
            self._settings.seconds,
            sum(client.tenures for client in self._clients),
            dict(self._nemesis.counts),
            sum(counter.lost for counter in [*counters.plain.values()]),
            sum(counter.refused for counter in [*counters.guarded.values()]),
            phase,
        )

    def _judge(self) -> Run:
        logs = [History(log) for client in self._clients for log in client.logs]
        seen = [
            self._counters.events,
            self._nemesis.events,
            self._queue_observer.events,
            self._events,
        ]
        bound = is_session_bound(self._address)
        seen.append(self._ended_sessions() if bound else [])
        history = History.merged([*logs, *self._audits, *(History(events) for events in seen)])
        traits = self._ours.client.traits if self._settings.library == OURS else None
        promises = promised(traits, self._ttl(), bound)
        unheard = self._unheard()
        if unheard:
            promises = promises._replace(freed_within=None)
        return Run(
            self._settings,
            self._address.public,
            traits,
            self._ttl(),
            history,
            promises,
            verdict(history, promises),
            dict(self._nemesis.counts),
            self._not_applicable,
            self._counters,
            self._deaths,
            BOUND if bound else "",
            unheard,
        )

    def _unheard(self) -> str:
        """Return why no newcomer got an answer from the engine, or an empty string if one did."""
        ends = [audit[-1] for audit in self._audits]
        return ends[0].detail if all(end.kind == "unknown" for end in ends) else ""

    def _ended_sessions(self) -> list[Event]:
        """Note for each partition that the server may have ended the client's sessions since."""
        return [
            event._replace(verb="expired", detail="its sessions may have ended")
            for event in self._nemesis.events
            if event.verb == "partition"
        ]


def _all_of(settings: Settings) -> Wish:
    """Return what a newcomer acquires to check that nothing is left: a slot, or the whole lock."""
    if settings.semaphore:
        return Wish("semaphore", settings.semaphore)
    return Wish("write") if settings.rw else MUTEX


def _name(number: int) -> str:
    return f"client {number + 1}"


EVERY_S = 0.1
JOIN_S = 30.0
YOUNG_S = 0.02  # an age that may be an error between two clocks


class QueueObserver:
    """A thread that inspects the locks repeatedly, and records their holders and waiters.

    Clients cannot see when they are in the queue, nor what the engine keeps for them; the engine
    can. A holder or waiter that was there before the request is recorded with the request's time.
    """

    def __init__(self, client: sync.Client, names: Sequence[str], now: Callable[[], float]) -> None:
        self._client = client
        self._names = names
        self._now = now
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="queue_observer", daemon=True)
        self.events: list[Event] = []

    def __enter__(self) -> Self:
        if self._names:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            for name in self._names:
                try:
                    self._look(name)
                except FencelockError:
                    pass  # the next attempt may succeed, and a missing note is no violation

    def _look(self, name: str) -> None:
        asked_at = self._now()
        _, holders, waiters, _ = self._client.inspect(name)
        spent = self._now() - asked_at
        seen = [("kept", one.age, one.meta) for one in holders]
        seen += [("queued", one.age, one.meta) for one in waiters]
        for verb, age, meta in seen:
            if age > spent + YOUNG_S and WHO in meta:
                self.events.append(Event(asked_at, str(meta[WHO]), "note", verb, name=name))
