"""Do the work of a client in a torture, over and over: read, work, check, write back.

The work is a read-modify-write, which loses an update whenever two do it at once. It is done on two
counters: one that checks fences and one that does not, so that a run shows what the lock alone
would have lost. Before it writes, a client asks whether it still has the lock, as every careful
program does; the write then takes a moment to arrive, as every write does.
"""

from __future__ import annotations

import random
import time
from typing import NamedTuple, Protocol

from .adapters import Doubt, Failed, Hold, LockAdapter

LONG_WORK = 0.2  # of all tenures: work that lasts up to more than a ttl
LONG_TTLS = 1.2
SHORT_TTLS = 0.05
ARRIVES_TTLS = 0.05
NAP_S = 0.05  # after an engine that cannot be reached
TRIES = 3


class Plan(NamedTuple):
    """What a client is told before it begins."""

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


class Recorder(Protocol):
    """Where a client writes down what it does, and how it reaches the counters."""

    def now(self) -> float: ...
    def invoke(self, verb: str, name: str, fence: int = 0, timeout: float | None = None) -> int: ...
    def end(
        self, kind: str, verb: str, op: int, name: str, fence: int = 0, detail: str = ""
    ) -> None: ...
    def note(self, verb: str, name: str, fence: int, at: float, detail: str) -> None: ...
    def checked(self) -> None: ...
    def held(self, ttl: float) -> None: ...
    def read(self, name: str, fence: int | None) -> int | None: ...
    def write(self, name: str, fence: int | None, seen: int) -> bool: ...
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
            name = self._chance.choice(self._plan.names)
            hold = self._acquire(name)
            if hold is None:
                time.sleep(NAP_S * self._chance.random())
                continue
            try:
                self._work(name, hold)
            finally:
                self._leave(name, hold)

    def _acquire(self, name: str) -> Hold | None:
        recorder = self._recorder
        op = recorder.invoke("acquire", name, timeout=self._plan.timeout)
        try:
            hold = self._adapter.acquire(name, self._plan.ttl, self._plan.timeout)
        except Doubt as doubt:
            recorder.end("unknown", "acquire", op, name, detail=str(doubt))
            return None
        except Failed as failure:
            recorder.end("fail", "acquire", op, name, detail=str(failure))
            return None
        if hold is None:
            recorder.end("fail", "acquire", op, name, detail="not in time")
            return None
        recorder.end("ok", "acquire", op, name, hold.fence)
        recorder.held(hold.ttl)
        return hold

    def _work(self, name: str, hold: Hold) -> None:
        """One read-modify-write of each counter."""
        recorder, ttl = self._recorder, hold.ttl
        plain = recorder.read(name, None)
        guarded = recorder.read(name, hold.fence) if hold.fence else None
        time.sleep(self._length(ttl))
        if why := hold.check():
            recorder.note("told", name, hold.fence, recorder.now(), why)
            return
        recorder.checked()
        time.sleep(self._chance.uniform(0, ARRIVES_TTLS * ttl))
        if plain is not None:
            recorder.write(name, None, plain)
        if guarded is not None:
            recorder.write(name, hold.fence, guarded)

    def _length(self, ttl: float) -> float:
        longest = LONG_TTLS if self._chance.random() < LONG_WORK else SHORT_TTLS
        return self._chance.uniform(0, longest * ttl)

    def _leave(self, name: str, hold: Hold) -> None:
        recorder = self._recorder
        told = self._tell_loss(name, hold)
        op = recorder.invoke("release", name, hold.fence)
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
        """Write down since when the holder could know of its loss, if it is lost."""
        lost_at = hold.lost_at()
        if lost_at is None:
            return False
        moment = min(lost_at - self._plan.origin, self._recorder.now())
        self._recorder.note("lost", name, hold.fence, moment, hold.check())
        return True
