"""A warm process that forks others: ``python -m tests.guards.workers.nest MODULE WHERE``.

It has loaded what a counter needs but is not connected to anything, so that a child of it is ready
at once and shares nothing. Orders and answers are JSON lines, as with the actor.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import fencelock
from tests.guards.resources import Counter, load
from tests.guards.workers.actor import say

TIMEOUT_S = 60.0
OPERATIONS_MAX = 100_000  # a child that nobody kills ends by itself
DONE = struct.Struct("<q")  # short enough for a pipe to take it whole


class Nest:
    """One method for each order."""

    def __init__(self, module: str, where: str) -> None:
        self._make: Callable[[], Counter] = lambda: load(module)(where)
        load(module)
        self._cycle_s = 0.005  # how long one guarded read and write take here

    def crowd(
        self, fences: Sequence[Sequence[int]], sharing: bool = False
    ) -> list[list[dict[str, Any]]]:
        """One child for each row: it tries the row's fences in turn, all at the same time."""
        attempt = _try_sharing if sharing else _try
        gate, opener = os.pipe()
        pipes: list[int] = []
        pids: list[int] = []
        for row in fences:
            source, sink = os.pipe()
            pid = self._fork(partial(self._try_all, row, attempt, gate, opener, sink))
            os.close(sink)
            pids.append(pid)
            pipes.append(source)
        for source in pipes:
            _read(source, 1)  # connected, and at the gate
        os.close(opener)
        os.close(gate)
        said = [_read_all(source) for source in pipes]
        for pid in pids:
            _see_end(pid, 0)
        return [json.loads(text) for text in said]

    def _try_all(
        self, row: Sequence[int], attempt: _Attempt, gate: int, opener: int, sink: int
    ) -> None:
        os.close(opener)
        counter = self._make()
        counter.read()
        os.write(sink, b"!")
        os.read(gate, 1)  # ends when the nest opens it
        report = [attempt(counter, fence) for fence in row]
        data = json.dumps(report).encode()
        while data:
            data = data[os.write(sink, data) :]

    def hunt(self, first: int, after: int, point: float) -> int:
        """Kill a child that reads and writes with one fence after another; its last that was done.

        It begins with ``first`` and is killed somewhere in the next operation when ``after`` are
        done: ``point`` says where, as a part of the time that one takes. 0: none was done.
        """
        source, sink = os.pipe()
        pid = self._fork(lambda: self._write_on(first, sink))
        os.close(sink)
        done: list[int] = []
        began = 0.0
        for number in range(after):
            done += DONE.unpack(_read(source, DONE.size))
            if number:
                self._cycle_s = 0.7 * self._cycle_s + 0.3 * (time.perf_counter() - began)
            began = time.perf_counter()
        time.sleep(point * self._cycle_s)  # any moment is as good as another
        os.kill(pid, signal.SIGKILL)
        _see_end(pid, -signal.SIGKILL)
        done += [fence for (fence,) in DONE.iter_unpack(_read_all(source))]
        return max(done, default=0)

    def _write_on(self, first: int, sink: int) -> None:
        counter, parent = self._make(), os.getppid()
        for fence in range(first, first + OPERATIONS_MAX):
            if fence % 2:  # a write must raise the mark by itself
                counter.enter(fence)
            counter.write(fence, fence)
            os.write(sink, DONE.pack(fence))
            if os.getppid() != parent:
                break  # nobody is left to kill us

    def _fork(self, work: Callable[[], None]) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)


_Attempt: TypeAlias = Callable[[Counter, int], dict[str, Any]]


def _try(counter: Counter, fence: int) -> dict[str, Any]:
    """Write the fence itself, every other one after it was entered; what was read and written."""
    report: dict[str, Any] = {"fence": fence, "read": None, "wrote": False}
    try:
        if fence % 2:
            report["read"] = counter.enter(fence)
        counter.write(fence, fence)
        report["wrote"] = True
    except fencelock.StaleFence as stale:
        if not stale.offered == fence < stale.highest:
            raise AssertionError(f"refused with the wrong numbers: {stale}") from stale
    return report


def _try_sharing(counter: Counter, fence: int) -> dict[str, Any]:
    """Read with every third fence, as a read lock's; write the others themselves."""
    report: dict[str, Any] = {"fence": fence, "read": None, "wrote": False}
    try:
        if fence % 3 == 0:
            report["read"] = counter.enter(fence, reading=True)
        else:
            counter.write(fence, fence)
            report["wrote"] = True
    except fencelock.StaleFence as stale:
        if not stale.offered == fence < stale.highest:
            raise AssertionError(f"refused with the wrong numbers: {stale}") from stale
    return report


def _read(source: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        ready, _, _ = select.select([source], [], [], TIMEOUT_S)
        more = os.read(source, count - len(data)) if ready else b""
        if not more:
            raise AssertionError("a child ended or hung before its work was done")
        data += more
    return data


def _read_all(source: int) -> bytes:
    data = b""
    while more := os.read(source, 65536):
        data += more
    os.close(source)
    return data


def _see_end(pid: int, expected: int) -> None:
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == expected, f"a child ended with {status}"


def serve() -> None:
    nest = Nest(*sys.argv[1:])
    say({"value": "ready"})
    for line in sys.stdin:
        message = json.loads(line)
        say({"value": getattr(nest, message.pop("order"))(**message)})


if __name__ == "__main__":
    serve()
