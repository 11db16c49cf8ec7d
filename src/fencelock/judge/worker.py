"""One client process of a torture: ``python -m fencelock.judge.worker``.

It is told its plan by the first line of its input and then speaks in lines of JSON: what it does,
and what it asks of the registers, which its parent keeps. Each question is answered by one line. It
ends when its input does; the kernel ends it with its parent even while it is frozen.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from typing import Any, cast

from ..errors import EngineError, FencelockError
from ..worlds import clock
from .lockers import Locker
from .peers import open_locker
from .workload import Client, Plan

LOOK_S = 0.05
CONNECT_S = 30.0
STALL_S = 0.2  # so late, and the machine is to blame

_mouth = threading.Lock()


class Line:
    """The line to the parent, which is also the notebook of the client."""

    def __init__(self, plan: Plan) -> None:
        self._origin = plan.origin
        self._ops = 0

    def now(self) -> float:
        return clock.now() - self._origin

    def invoke(self, verb: str, name: str, fence: int = 0, timeout: float | None = None) -> int:
        self._ops += 1
        now = self.now()
        deadline = 0.0 if timeout is None else now + timeout
        self._event(now, "invoke", verb, self._ops, name, fence, "", deadline)
        return self._ops

    def end(
        self, kind: str, verb: str, op: int, name: str, fence: int = 0, detail: str = ""
    ) -> None:
        self._event(self.now(), kind, verb, op, name, fence, detail)

    def note(self, verb: str, name: str, fence: int, at: float, detail: str) -> None:
        self._event(at, "note", verb, 0, name, fence, detail)

    def see_stalls(self) -> None:
        """Note when this process did not run, whoever is to blame: a busy machine pauses, too."""
        before = self.now()
        while True:
            time.sleep(LOOK_S)
            now = self.now()
            if now - before > LOOK_S + STALL_S:
                self.note("pause", "", 0, before, "it did not run")
                self.note("resume", "", 0, now, "")
            before = now

    def checked(self) -> None:
        """Say that the write is about to begin: the worst moment to be stopped."""
        say(checked=True)

    def held(self, ttl: float) -> None:
        """Say how long the engine keeps what it has granted."""
        say(ttl=ttl)

    def read(self, name: str, fence: int | None) -> int | None:
        answer = self._ask("read", name, fence, None)
        return cast("int", answer["value"]) if answer["accepted"] else None

    def write(self, name: str, fence: int | None, seen: int) -> bool:
        return bool(self._ask("write", name, fence, seen)["accepted"])

    def stopping(self) -> bool:
        """Ask whether to go on; the answer keeps a client from running ahead of its parent."""
        say(ask="turn")
        return bool(hear()["stop"])

    def _event(
        self,
        at: float,
        kind: str,
        verb: str,
        op: int,
        name: str,
        fence: int,
        detail: str,
        deadline: float = 0.0,
    ) -> None:
        say(event=[round(at, 6), kind, verb, op, name, fence, detail, round(deadline, 6)])

    def _ask(self, verb: str, name: str, fence: int | None, seen: int | None) -> dict[str, Any]:
        say(ask=verb, at=round(self.now(), 6), name=name, fence=fence, seen=seen)
        return hear()


def say(**facts: object) -> None:
    """One line to the parent."""
    try:
        with _mouth:
            sys.stdout.write(json.dumps(facts) + "\n")
            sys.stdout.flush()
    except OSError:
        os._exit(0)  # nobody is there to hear it


def hear() -> dict[str, Any]:
    """One line of the parent's; its end is ours."""
    line = sys.stdin.readline()
    if not line:
        os._exit(0)  # at once: releasing takes time, and the lease ends by itself
    return cast("dict[str, Any]", json.loads(line))


def end_with_parent() -> None:
    """Have the kernel end us with our parent: while we are frozen we cannot see that it is gone."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def connect(plan: Plan) -> Locker:
    """Open a client; one that was started again may be cut off, and tries until it is not."""
    give_up = clock.now() + CONNECT_S
    while True:
        try:
            return open_locker(plan.library, plan.url, plan.flavor, plan.client)
        except EngineError:
            if clock.now() > give_up:
                raise
            time.sleep(LOOK_S)


def main() -> int:
    end_with_parent()
    given = hear()
    names = tuple(given.pop("names"))
    plan = Plan(names=names, **given)
    try:
        locker = connect(plan)
    except FencelockError as error:
        say(error=str(error))
        return 1
    line = Line(plan)
    threading.Thread(target=line.see_stalls, name="stalls", daemon=True).start()
    say(ready=True)
    Client(locker, plan, line).run()
    try:
        locker.close()
    except FencelockError:
        pass  # what could not be given back ends by itself
    say(done=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
