"""A client process of a torture, as its parent starts, records, freezes, kills and restarts it.

Each has a process group of its own, so that Ctrl-C reaches the torture alone, which then ends them.
A thread per process records the lines that it writes, and answers its requests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from ..history import Event
from .counters import SharedCounters
from .workload import Plan

READY_S = 60.0
END_S = 10.0


class ClientProcess:
    """One client, through all the processes that run it, one after the other."""

    def __init__(self, name: str, plan: Plan, counters: SharedCounters) -> None:
        self.name = name
        self._plan = plan
        self._counters = counters
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  # it is closed with us
        self._listener: threading.Thread | None = None
        self._news = threading.Condition()
        self._said: dict[str, Any] = {}
        self._stop = False
        self.lives = 0
        self.logs: list[list[Event]] = []
        """The events that each process has recorded."""
        self.ttl = 0.0
        """The longest lease that it was granted."""
        self.tenures = 0
        self.on_checked: Callable[[ClientProcess], None] = lambda _: None
        """Called when the client is about to write."""

    def start(self) -> None:
        """Start a process and send it its plan; it begins its work by itself."""
        self.lives += 1
        self._said = {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,  # a pipe that nobody reads would block it once full
            encoding="utf-8",
            bufsize=1,
            process_group=0,
        )
        log: list[Event] = []
        self.logs.append(log)
        self._listener = threading.Thread(
            target=self._listen, args=(self._process, log), daemon=True
        )
        self._listener.start()
        plan = self._plan._replace(seed=self._plan.seed + 1000 * self.lives)
        self._answer(self._process, plan._asdict())

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it has not been started"
        return self._process.pid

    def wait_ready(self, within: float = READY_S) -> str:
        """Wait until it is connected; return why it is not, or an empty string."""
        return "" if self._receives("ready", within) else self.trouble()

    def trouble(self) -> str:
        """Return why it has ended: the error that it sent, or the last line of its stderr."""
        if "error" in self._said:
            return str(self._said["error"])
        if self._process is None or self._process.poll() is None:
            return "it does not answer"
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1] if lines else f"it ended with exit code {self._process.returncode}"

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def halt(self) -> None:
        """Freeze it, and return when it has stopped: the signal alone takes effect later."""
        self.freeze()
        if self.running and hasattr(os, "waitid"):
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End its process as a power failure does, and keep what it had sent until then."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(END_S)
        if self._listener is not None:
            self._listener.join(END_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        self._process = None

    def close(self) -> None:
        """Kill its process, and delete the file with its stderr."""
        self.kill()
        self._errors.close()

    def died(self) -> bool:
        """Return whether its process has ended by itself before ``stop``."""
        return self._process is not None and self._process.poll() is not None and not self._stop

    def stop(self) -> None:
        """Let it end after the current tenure."""
        self._stop = True

    def wait_done(self, until: float) -> bool:
        """Wait until it has released everything or ended; return whether it has."""
        return not self.running or self._receives("done", max(0.0, until - time.monotonic()))

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            assert self._process is not None
            self._process.send_signal(number)

    def _receives(self, word: str, within: float) -> bool:
        def over() -> bool:
            return word in self._said or "ended" in self._said

        with self._news:
            self._news.wait_for(over, within)
            return word in self._said

    def _listen(self, process: subprocess.Popen[str], log: list[Event]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # else it was killed in the middle of a line
                self._take(process, log, json.loads(line))
        with self._news:
            self._said["ended"] = True
            self._news.notify_all()

    def _take(self, process: subprocess.Popen[str], log: list[Event], said: dict[str, Any]) -> None:
        if "event" in said:
            at, kind, verb, op, name, fence, detail, deadline, *share = said["event"]
            words = (at, self.name, kind, verb, op, name, fence, None, detail, 0.0, deadline)
            log.append(Event(*words, *share))
        elif "request" in said:
            self._serve(process, said)
        elif "checked" in said:
            self.on_checked(self)
        elif "ttl" in said:
            self.ttl = max(self.ttl, said["ttl"])
            self.tenures += 1
        else:
            with self._news:
                self._said |= said
                self._news.notify_all()

    def _serve(self, process: subprocess.Popen[str], said: dict[str, Any]) -> None:
        if said["request"] == "turn":
            self._answer(process, {"stop": self._stop})
            return
        answer = self._counters.do(
            self.name,
            said["at"],
            said["request"],
            said["name"],
            said["fence"],
            said["seen"],
            said["role"],
        )
        self._answer(process, answer._asdict())

    def _answer(self, process: subprocess.Popen[str], facts: dict[str, Any]) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(facts) + "\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass  # it was killed, and its pipe closed
