"""The real program in real processes: started, waited for with a deadline, and looked for after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import fencelock

T = TypeVar("T")

SHOW_AFTER_S = 120.0  # far more than anything takes, on a machine that does much else
MARK = "FENCELOCK_TEST_MARK"
COMMAND = [sys.executable, "-W", "error", "-m", "fencelock"]
Process = subprocess.Popen[str]
Completed = subprocess.CompletedProcess[str]


class Program:
    """`fencelock` with a lock file of its own. What it starts carries a mark, to be found by."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "locks.db"
        self.url = f"sqlite:///{self.file}"
        self.mark = uuid.uuid4().hex
        self.environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("FENCELOCK_", "PYTHONWARN", "NO_COLOR", "FORCE_COLOR"))
        }
        self.environment |= {
            "FENCELOCK_URL": self.url,
            "HOME": str(folder),
            "SHELL": "/bin/sh",
            "TERM": "xterm",
            MARK: self.mark,
        }
        self._started: list[Process] = []

    def add_to_path(self, folder: Path) -> None:
        """Let Python find modules there."""
        before = self.environment.get("PYTHONPATH")
        self.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), before]))

    def start(
        self,
        *words: str,
        env: dict[str, str] | None = None,
        before: Sequence[str] = (),
        **options: Any,
    ) -> Process:
        """Start it with pipes, perhaps by another program; it ends with the test at the latest."""
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **options}
        process: Process = subprocess.Popen(
            [*before, *COMMAND, *words],
            env={**self.environment, **(env or {})},
            cwd=self.folder,
            text=True,
            **{"stderr": subprocess.PIPE, **options},
        )
        self._started.append(process)
        return process

    def run(self, *words: str, given: str = "", **options: Any) -> Completed:
        """Run it to its end."""
        process = self.start(*words, **options)
        out, err = process.communicate(given, timeout=SHOW_AFTER_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def answered(self, *words: str) -> Completed:
        """Run what does not wait until it got an answer: a busy machine may leave it no time."""
        (ran,) = eventually(lambda: [x for x in [self.run(*words)] if x.returncode != 69])
        return ran

    def json(self, *words: str, **options: Any) -> dict[str, Any]:
        """Run it with --json and read its one object."""
        ran = self.run(*words, "--json", **options)
        assert ran.returncode == 0, ran.stderr
        facts: dict[str, Any] = json.loads(ran.stdout)
        assert facts["schema"] == 1
        return facts

    def client(self) -> fencelock.Client:
        return fencelock.connect(self.url)

    def queue(self, name: str, length: int) -> None:
        """Wait until so many stand in the queue."""
        with self.client() as client:
            eventually(lambda: len(client.inspect(name).waiters) == length)

    def marked(self) -> list[int]:
        """All living processes that were started by this, however far down."""
        return [pid for pid in pids() if self._is_marked(pid)]

    def _is_marked(self, pid: int) -> bool:
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return False
        return state != "Z" and f"{MARK}={self.mark}".encode() in environment

    def close(self) -> list[int]:
        """End what is left, and say what was left that nobody waited for."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
        for process in self._started:
            for stream in (process.stdin, process.stdout, process.stderr):
                close(stream)
            process.wait(SHOW_AFTER_S)
        try:
            eventually(lambda: not self.marked(), 10.0)
        except TimeoutError:
            left = self.marked()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return left
        return []


def close(stream: IO[str] | None) -> None:
    try:
        if stream is not None:
            stream.close()
    except OSError:
        pass  # what was buffered can no longer be written


def pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def eventually(look: Callable[[], T], timeout: float = SHOW_AFTER_S) -> T:
    """Look again and again until it is true; the deadline is a failure."""
    until = time.monotonic() + timeout
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise TimeoutError("it did not come true in time")
        time.sleep(0.01)


def line(process: Process) -> str:
    """The next line of a process: how it says that it has got there."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def end(process: Process, given: str | None = None) -> Completed:
    """Close its stdin, and wait for its end and all it has said."""
    out, err = process.communicate(given, timeout=SHOW_AFTER_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    found = []
    for other in pids():
        try:
            fields = Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(other)
    return found


def watchdog_of(process: Process) -> int:
    """The child that runs our own program, not the command."""
    own = words_of(process.pid)
    same = [pid for pid in children(process.pid) if words_of(pid) == own]
    assert len(same) == 1
    return same[0]


def words_of(pid: int) -> bytes:
    """The command line of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
