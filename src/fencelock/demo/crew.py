"""The processes of the demo: started, heard, frozen, woken and ended, each by its process id.

What the workers say arrives in one inbox, and so does Ctrl-C: the story hears one thing after the
other and is never torn apart in the middle of a step.  Each worker has a process group of its own,
so that Ctrl-C in a terminal reaches the demo alone, which then ends them.  If the demo itself is
killed, the system wakes a frozen worker, and every worker finds its input closed and ends.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from .words import Message

END_S = 5.0  # how long a process may take to end


class Trouble(Exception):
    """The demo cannot go on, and why."""


class Interrupted(Exception):
    """A signal asks the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(_signal_name(number))
        self.number = number


class Worker:
    """One process, as its parent sees it."""

    def __init__(self, name: str, arguments: list[str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fencelock.demo.worker", "--name", name, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                process_group=0,
            )
        self.pid = self._process.pid

    def listen(self, inbox: Inbox) -> None:
        """Put what the worker says into the inbox, and None when it has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                inbox.put((self, Message.from_line(line)))
            except ValueError:
                pass  # it died in the middle of a line
        inbox.put((self, None))

    def reply(self) -> None:
        """Send the line for which the worker waits."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died: the inbox says so next

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def check_end(self) -> None:
        """Raise Trouble unless the process has ended as it should."""
        who = f"{self.name} (process {self.pid})"
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Trouble(f"{who} has closed its output and does not end") from None
        if code < 0:
            raise Trouble(f"{who} was killed by {_signal_name(-code)}")
        if code > 0:
            raise Trouble(f"{who} died: {self._last_words() or f'exit code {code}'}")

    def _last_words(self) -> str:
        """The last line of its standard error: of a traceback, the error itself."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def kill(self) -> None:
        """End it now, frozen or not; nothing happens if it has ended."""
        self._process.kill()

    def bury(self) -> None:
        """Wait for its end and close what is left of it."""
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            return  # stuck in the kernel until that lets go: closing its output would wait as well
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


Inbox = SimpleQueue[tuple[Worker, Message | None] | int]


class Crew:
    """All workers.  Leaving the ``with`` block ends those that still run."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self._listeners: list[Thread] = []
        self._inbox: Inbox = SimpleQueue()

    def start(self, name: str, arguments: list[str], log: Path) -> Worker:
        worker = Worker(name, arguments, log)
        self.workers.append(worker)
        listener = Thread(target=worker.listen, args=(self._inbox,), daemon=True)
        self._listeners.append(listener)
        listener.start()
        return worker

    def hear(self, until: float) -> tuple[Worker, Message | None] | None:
        """Wait for what a worker says, or None for its end; nothing when time is up."""
        try:
            heard = self._inbox.get(timeout=max(0.0, until - time.monotonic()))
        except Empty:
            return None
        if isinstance(heard, int):
            raise Interrupted(heard)
        return heard

    def interrupt(self, number: int, _frame: object = None) -> None:
        """A signal handler.  Of all queues, a SimpleQueue may be used in one."""
        self._inbox.put(number)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()
        for listener in self._listeners:
            listener.join(END_S)
        for worker in self.workers:
            worker.bury()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
