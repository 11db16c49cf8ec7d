"""Other processes that take part in a test: started, told, stopped and killed by their pid.

A worker says one JSON object per line. ``Actor`` is the one that does as it is told: it holds a
client of its own, in either flavor, and answers every order. Scripts that do one thing only are
``Worker``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.faults.flavors import SOON, Late
from tests.faults.forked import ForkedProcess

ROOT = Path(__file__).parents[2]
FORKED = {"actor", "stormer"}  # they end by a kill, or as suddenly


class Refused(Exception):
    """An order was answered with an error of fencelock."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class Worker:
    """One process of ours, and what it has said so far."""

    def __init__(
        self,
        script: str,
        *arguments: str,
        wrapper: Sequence[str] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        module = f"tests.faults.workers.{script}"
        self._process: subprocess.Popen[str] | ForkedProcess
        if script in FORKED and not wrapper and not environment:
            self._process = ForkedProcess(module, arguments)
        else:
            self._process = subprocess.Popen(
                [*wrapper, sys.executable, "-u", "-m", module, *arguments],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                bufsize=1,
                process_group=0,  # with its children, so that none outlives the test
            )
        self._said: list[dict[str, Any]] = []
        self._stderr: list[str] = []
        self._news = threading.Condition()
        self._listeners = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._listen_to_errors, daemon=True),
        ]
        for listener in self._listeners:
            listener.start()
        self.pid = self._process.pid

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # killed in the middle of a word
            with self._news:
                self._said.append(json.loads(line))
                self._news.notify_all()

    def _listen_to_errors(self) -> None:
        assert self._process.stderr is not None
        self._stderr.extend(self._process.stderr)

    def hear(self, *keys: str, within: float = SOON, **facts: object) -> dict[str, Any]:
        """Wait until it has said something that has these keys and these facts."""

        def found() -> dict[str, Any] | None:
            fits = (m for m in self._said if facts.items() <= m.items() and {*keys} <= m.keys())
            return next(fits, None)

        give_up = time.monotonic() + within
        with self._news:
            while True:
                ended = self._process.poll() is not None and not self._listeners[0].is_alive()
                late = time.monotonic() >= give_up
                if (message := found()) is not None:  # looked for after both: the last word counts
                    return message
                if ended:
                    raise Late(f"the process ended before it said {[*keys, facts]}{self._end()}")
                if late:
                    raise Late(f"{[*keys, facts]} was not said within {within:g} s{self._end()}")
                self._news.wait(min(0.2, max(0.0, give_up - time.monotonic())))

    def heard(self, **facts: object) -> list[dict[str, Any]]:
        """Everything it has said so far that has these facts."""
        return [message for message in list(self._said) if facts.items() <= message.items()]

    def has_said(self, **facts: object) -> bool:
        return bool(self.heard(**facts))

    def _end(self) -> str:
        said = "".join(f"\n  {message}" for message in self._said)
        return f"; it said:{said}\nand on stderr:\n{self.errors()}"

    def errors(self) -> str:
        """What it wrote to stderr."""
        return "".join(self._stderr)

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def freeze(self) -> None:
        """Stop it, and see that it has stopped: the signal itself only asks."""
        self.signal(signal.SIGSTOP)
        self.wait_frozen()

    def wait_frozen(self) -> None:
        give_up = time.monotonic() + SOON
        while _state(self.pid) != "T":
            if time.monotonic() > give_up:
                raise Late(f"process {self.pid} did not stop")
            time.sleep(0.001)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            raise Late(f"the process had ended before signal {number}{self._end()}") from None

    def kill(self) -> None:
        """Kill it as a power cut would, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait_gone()

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_gone(self) -> None:
        """Wait for the end of the process itself; its children may live on."""
        self._process.wait(SOON)

    def wait(self, within: float = SOON) -> int:
        """Wait for its end and return its exit status."""
        try:
            status = self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise Late(f"the process did not end within {within:g} s{self._end()}") from None
        for listener in self._listeners:
            listener.join(SOON)
        return status

    def clear(self) -> None:
        """Leave nothing of it behind, not even its children."""
        for kill in (os.killpg, os.kill):  # it may not have made its group yet
            try:
                kill(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait(SOON)
        for listener in self._listeners:
            listener.join(SOON)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass


class Answer:
    """What an order will be answered with."""

    def __init__(self, actor: Actor, number: int) -> None:
        self._actor = actor
        self._number = number

    def given(self) -> bool:
        return self._actor.has_said(answer=self._number)

    def result(self, within: float = SOON) -> Any:
        message = self._actor.hear(within=within, answer=self._number)
        if "error" in message:
            raise Refused(message["error"], message["message"])
        return message["value"]


class Actor(Worker):
    """A process with a client of its own that does as it is told."""

    def __init__(self, flavor: str, url: str, **how: Any) -> None:
        super().__init__("actor", flavor, url, **how)
        self._orders = 0

    def wait_ready(self) -> None:
        """Wait until it is connected; behind a wrapper, its pid is another than that we started."""
        self.pid = int(self.hear(event="ready")["pid"])

    def begin(self, order: str, **arguments: object) -> Answer:
        """Give an order; its answer may come late."""
        self._orders += 1
        self.send(json.dumps({"number": self._orders, "order": order, **arguments}))
        return Answer(self, self._orders)

    def ask(self, order: str, *, within: float = SOON, **arguments: object) -> Any:
        """Give an order and wait for the answer."""
        return self.begin(order, **arguments).result(within)

    def insist(self, order: str, **arguments: Any) -> Any:
        """Ask again while nobody answers: one whose connection has ended has to connect first."""
        give_up = time.monotonic() + SOON
        while True:
            try:
                return self.ask(order, **arguments)
            except Refused as refused:
                if refused.kind != "Unavailable" or time.monotonic() > give_up:
                    raise

    def acquire(self, name: str, **options: Any) -> dict[str, Any]:
        """Have it acquire a lock: its fence, and until when it is sure of it."""
        answer: dict[str, Any] = self.ask("acquire", name=name, **options)
        return answer

    def lose(self, name: str) -> dict[str, Any]:
        """Have it fail to renew a lease, whose time is over then; what it was told of that."""
        self.ask("make_due", name=name)
        give_up = time.monotonic() + SOON
        while not self.ask("status", name=name)["failure"]:
            if time.monotonic() > give_up:
                raise Late(f"no renewal of {name!r} failed within {SOON:g} s")
            time.sleep(0.005)
        self.ask("make_end", name=name)
        return self.hear(event="lost", name=name)

    def queue(self, name: str, place: int, **options: object) -> Answer:
        """Have it wait for a lock; return when it stands in the queue, as the given one."""
        answer = self.begin("acquire", name=name, timeout=None, **options)
        self.wait_queued(name, place)
        return answer

    def wait_queued(self, name: str, count: int) -> None:
        """Wait until it sees so many waiters."""
        give_up = time.monotonic() + SOON
        while self.ask("inspect", name=name)["waiters"] != count:
            if time.monotonic() > give_up:
                raise Late(f"{count} waiters for {name!r} were not seen within {SOON:g} s")
            time.sleep(0.005)


class Crew:
    """All processes of one test."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []

    def actor(self, flavor: str, url: str, **how: Any) -> Actor:
        actor = Actor(flavor, url, **how)
        self._workers.append(actor)
        actor.wait_ready()
        return actor

    def worker(self, script: str, *arguments: str, **how: Any) -> Worker:
        worker = Worker(script, *arguments, **how)
        self._workers.append(worker)
        return worker

    def clear(self) -> None:
        for worker in self._workers:
            worker.clear()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
