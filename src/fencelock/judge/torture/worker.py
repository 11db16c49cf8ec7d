"""The program of one client process of a torture: ``python -m fencelock.judge.torture.worker``.

It reads its plan from the first line of its input, and then writes lines of JSON: what it does, and
its requests to the counters, which its parent keeps. Each request is answered by one line. It ends
when its input does; on Linux the kernel ends it with its parent even while it is frozen.
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

from ...errors import EngineError, FencelockError
from ...worlds import clock
from .adapters import MUTEX, LockAdapter, Wish
from .peers import open_adapter
from .workload import Client, Plan

CHECK_S = 0.05  # between two checks for a stall
RETRY_S = 0.05  # between two tries to connect
CONNECT_S = 30.0
STALL_S = 0.2  # a delay beyond this counts as a pause

_output = threading.Lock()


class ParentChannel:
    """The recorder of a client: it sends events and requests to the parent."""

    def __init__(self, plan: Plan) -> None:
        self._origin = plan.origin
        self._ops = 0

    def now(self) -> float:
        return clock.now() - self._origin

    def invoke(
        self,
        verb: str,
        name: str,
        fence: int = 0,
        timeout: float | None = None,
        wish: Wish = MUTEX,
    ) -> int:
        self._ops += 1
        now = self.now()
        deadline = 0.0 if timeout is None else now + timeout
        share = (wish.role, *wish.units, None, 0.0)
        self._event(now, "invoke", verb, self._ops, name, fence, "", deadline, share)
        return self._ops

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
    ) -> None:
        share = ("", 0, 0, slot, round(until, 6))
        self._event(self.now(), kind, verb, op, name, fence, detail, share=share)

    def note(self, verb: str, name: str, fence: int, at: float, detail: str) -> None:
        self._event(at, "note", verb, 0, name, fence, detail)

    def see_stalls(self) -> None:
        """Record when this process did not run, whatever the cause: a busy machine pauses, too."""
        before = self.now()
        while True:
            time.sleep(CHECK_S)
            now = self.now()
            if now - before > CHECK_S + STALL_S:
                self.note("pause", "", 0, before, "it did not run")
                self.note("resume", "", 0, now, "")
            before = now

    def checked(self) -> None:
        """Tell the parent that the write is about to begin: the worst moment to be stopped."""
        send(checked=True)

    def held(self, ttl: float) -> None:
        """Tell the parent the ttl of the lease that the engine has granted."""
        send(ttl=ttl)

    def read(self, name: str, fence: int | None, role: str = "") -> int | None:
        answer = self._request("read", name, fence, None, role)
        return cast("int", answer["value"]) if answer["accepted"] else None

    def write(self, name: str, fence: int | None, seen: int, role: str = "") -> bool:
        return bool(self._request("write", name, fence, seen, role)["accepted"])

    def stopping(self) -> bool:
        """Return whether to stop; the wait for the reply keeps a client in step with its parent."""
        send(request="turn")
        return bool(receive()["stop"])

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
        share: tuple[str, int, int, int | None, float] = ("", 0, 0, None, 0.0),
    ) -> None:
        words = (kind, verb, op, name, fence, detail, round(deadline, 6), *share)
        send(event=[round(at, 6), *words])

    def _request(
        self, verb: str, name: str, fence: int | None, seen: int | None, role: str
    ) -> dict[str, Any]:
        at = round(self.now(), 6)
        send(request=verb, at=at, name=name, fence=fence, seen=seen, role=role)
        return receive()


def send(**facts: object) -> None:
    """Send one line to the parent."""
    try:
        with _output:
            sys.stdout.write(json.dumps(facts) + "\n")
            sys.stdout.flush()
    except OSError:
        os._exit(0)  # the parent is gone


def receive() -> dict[str, Any]:
    """Receive one line from the parent; if the parent has ended, end this process too."""
    line = sys.stdin.readline()
    if not line:
        os._exit(0)  # at once: releasing takes time, and the lease ends by itself
    return cast("dict[str, Any]", json.loads(line))


def end_with_parent() -> None:
    """Have the kernel end this process with its parent, whose end a frozen process cannot see."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def connect(plan: Plan) -> LockAdapter:
    """Open a client; retry for a while, since a restarted client may be cut off."""
    give_up = clock.now() + CONNECT_S
    while True:
        try:
            return open_adapter(plan.library, plan.url, plan.flavor, plan.client)
        except EngineError:
            if clock.now() > give_up:
                raise
            time.sleep(RETRY_S)


def main() -> int:
    end_with_parent()
    given = receive()
    names = tuple(given.pop("names"))
    plan = Plan(names=names, **given)
    try:
        adapter = connect(plan)
    except FencelockError as error:
        send(error=str(error))
        return 1
    channel = ParentChannel(plan)
    threading.Thread(target=channel.see_stalls, name="stalls", daemon=True).start()
    send(ready=True)
    Client(adapter, plan, channel).run()
    try:
        adapter.close()
    except FencelockError:
        pass  # what could not be released expires
    send(done=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
