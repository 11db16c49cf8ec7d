"""The processes of a test of the claim: started, told, frozen and woken by their pid.

Each is a module of ``workers/`` that reads orders and writes answers, one JSON object per line.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.servers.server import with_us

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 60.0  # only a defect uses it up


class Worker:
    """One process. ``ask`` is ``tell`` and ``hear``."""

    def __init__(self, folder: Path, script: str, *arguments: str) -> None:
        self._log = folder / f"{script}-{time.monotonic_ns()}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*with_us(), sys.executable, "-m", f"tests.guards.workers.{script}", *arguments],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,  # with its children, so that none outlives the test
            )
        self._heard = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, order: str, **arguments: object) -> dict[str, Any]:
        """Give an order and wait for its answer."""
        self.tell(order, **arguments)
        return self.hear()

    def tell(self, order: str, **arguments: object) -> None:
        """Give an order; its answer is heard later."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"order": order, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The answer to the oldest order that is not answered yet."""
        assert self._process.stdout is not None
        give_up = time.monotonic() + TIMEOUT_S
        while b"\n" not in self._heard:
            left = max(0.0, give_up - time.monotonic())
            ready, _, _ = select.select([self._process.stdout], [], [], left)
            more = os.read(self._process.stdout.fileno(), 1 << 20) if ready else b""
            if not more:
                raise AssertionError(
                    f"process {self.pid} {'ended' if ready else 'said nothing'}; on stderr:\n"
                    + self._log.read_text(errors="replace")
                )
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def wait_frozen(self) -> None:
        """Wait until it has stopped itself."""
        assert self._process.stdout is not None
        give_up = time.monotonic() + TIMEOUT_S
        while _state(self.pid) != "T":
            if self._heard or select.select([self._process.stdout], [], [], 0.001)[0]:
                raise AssertionError(f"it answered instead of freezing: {self.hear()}")
            assert time.monotonic() < give_up, f"process {self.pid} did not freeze"

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def clear(self) -> None:
        """Leave nothing of it behind, not even its children."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass


class Crew:
    """All processes of one test, around one counter."""

    def __init__(self, module: str, where: str, folder: Path) -> None:
        self._place = (module, where)
        self._folder = folder
        self._workers: list[Worker] = []

    def actors(self, count: int) -> list[Worker]:
        """Processes that lock, read and write as they are told."""
        url = f"sqlite:///{self._folder / 'locks.db'}"
        return self._start("actor", count, url)

    def nest(self) -> Worker:
        """A process that forks others."""
        return self._start("nest", 1)[0]

    def _start(self, script: str, count: int, *more: str) -> list[Worker]:
        workers = [Worker(self._folder, script, *self._place, *more) for _ in range(count)]
        self._workers += workers
        for worker in workers:
            worker.hear()  # it is ready
        return workers

    def clear(self) -> None:
        for worker in self._workers:
            worker.clear()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
