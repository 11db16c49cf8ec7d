"""The work of a client in a torture, repeated: read, work, check, write back.

The work is a read-modify-write, which loses an update if two clients do it at once. It is done on
two counters: one that checks fences and one that does not, so that a run shows what the lock alone
would have lost. Each slot of a semaphore has two of its own, and the holder of a read lock only
reads. Before it writes, a client checks whether it still has the lock, as every careful program
does; the write then takes a moment to arrive, as every write does.
"""

from __future__ import annotations

import random
import time
from typing import NamedTuple, Protocol

from .adapters import MUTEX, Doubt, Failed, Hold, LockAdapter, Wish

LONG_WORK = 0.2  # the share of tenures whose work may last longer than a ttl
LONG_TTLS = 1.2
SHORT_TTLS = 0.05
ARRIVES_TTLS = 0.05
NAP_S = 0.05  # after an engine that cannot be reached
TRIES = 3
WRITES = 0.4  # the share of writers among acquires of a read/write lock


class Plan(NamedTuple):
    """What a client gets from its parent before it begins."""

    client: str
    url: str
    library: str
    flavor: str
    names: tuple[str, ...]
    ttl: float
    timeout: float
    seed: int
    origin: float
    """The reading of the clock that all processes share at which the run began."""
    limit: int = 0
    """The limit of the semaphore that is acquired; 0 for another kind of lock."""
    rw: bool = False
    """Whether a read/write lock is acquired."""


class Recorder(Protocol):
    """The record of what a client does, and its access to the counters."""

    def now(self) -> float: ...
    def invoke(
        self,
        verb: str,
        name: str,
        fence: int = 0,
        timeout: float | None = None,
        wish: Wish = MUTEX,
    ) -> int: ...
    def end(
        self,
        kind: str,
        verb: str,
        op: int,
        name: str,
        fence: int = 0,
        detail: str = "",
        slot: int | None = None,
        until: float = 0.0,
    ) -> None: ...
    def note(self, verb: str, name: str, fence: int, at: float, detail: str) -> None: ...
    def checked(self) -> None: ...
    def held(self, ttl: float) -> None: ...
    def read(self, name: str, fence: int | None, role: str = "") -> int | None: ...
    def write(self, name: str, fence: int | None, seen: int, role: str = "") -> bool: ...
    def stopping(self) -> bool: ...


class Client:
    """One client at work."""

    def __init__(self, adapter: LockAdapter, plan: Plan, recorder: Recorder) -> None:
        self._adapter = adapter
        self._plan = plan
        self._recorder = recorder
        self._chance = random.Random(plan.seed)

    def run(self) -> None:
        """Work until told to stop."""
        while not self._recorder.stopping():
            name, wish = self._chance.choice(self._plan.names), self._wish()
            hold = self._acquire(name, wish)
            if hold is None:
                time.sleep(NAP_S * self._chance.random())
                continue
            try:
                self._work(name, hold, wish.role)
            finally:
                self._leave(name, hold, wish)

    def _wish(self) -> Wish:
        if self._plan.rw:
            return Wish("write" if self._chance.random() < WRITES else "read")
        return Wish("semaphore", self._plan.limit) if self._plan.limit else MUTEX

    def _acquire(self, name: str, wish: Wish) -> Hold | None:
        recorder, plan, adapter = self._recorder, self._plan, self._adapter
        op = recorder.invoke("acquire", name, timeout=plan.timeout, wish=wish)
        try:
            if wish.role:
                hold = adapter.acquire_share(wish, name, plan.ttl, plan.timeout)
            else:
                hold = adapter.acquire(name, plan.ttl, plan.timeout)
        except Doubt as doubt:
            recorder.end("unknown", "acquire", op, name, detail=str(doubt))
            return None
        except Failed as failure:
            recorder.end("fail", "acquire", op, name, detail=str(failure))
            return None
        if hold is None:
            recorder.end("fail", "acquire", op, name, detail="not in time")
            return None
        until = hold.until and hold.until - plan.origin
        recorder.end("ok", "acquire", op, name, hold.fence, slot=hold.slot, until=until)
        recorder.held(hold.ttl)
        return hold

    def _work(self, name: str, hold: Hold, role: str) -> None:
        """Do one read-modify-write of each counter; a reader only reads."""
        recorder, ttl = self._recorder, hold.ttl
        counter = name if hold.slot is None else f"{name}#{hold.slot}"
        plain = recorder.read(counter, None)
        guarded = recorder.read(counter, hold.fence, role) if hold.fence else None
        time.sleep(self._length(ttl))
        if why := hold.check():
            recorder.note("told", name, hold.fence, recorder.now(), why)
            return
        if role == "read":
            return
        recorder.checked()
        time.sleep(self._chance.uniform(0, ARRIVES_TTLS * ttl))
        if plain is not None:
            recorder.write(counter, None, plain)
        if guarded is not None:
            recorder.write(counter, hold.fence, guarded, role)

    def _length(self, ttl: float) -> float:
        longest = LONG_TTLS if self._chance.random() < LONG_WORK else SHORT_TTLS
        return self._chance.uniform(0, longest * ttl)

    def _leave(self, name: str, hold: Hold, wish: Wish) -> None:
        recorder = self._recorder
        told = self._tell_loss(name, hold)
        op = recorder.invoke("release", name, hold.fence, wish=wish)
        kind, detail = "unknown", ""
        for _ in range(TRIES):
            try:
                kind, detail = ("ok", "") if hold.release() else ("fail", "it was no longer ours")
                break
            except Doubt as doubt:
                detail = str(doubt)
                time.sleep(NAP_S)
        recorder.end(kind, "release", op, name, hold.fence, detail)
        if not told:
            self._tell_loss(name, hold)

    def _tell_loss(self, name: str, hold: Hold) -> bool:
        """Record since when the holder could know of its loss; return whether it is lost."""
        lost_at = hold.lost_at()
        if lost_at is None:
            return False
        moment = min(lost_at - self._plan.origin, self._recorder.now())
        self._recorder.note("lost", name, hold.fence, moment, hold.check())
        return True
