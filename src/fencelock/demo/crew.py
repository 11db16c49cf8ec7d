"""The processes of the demo: started, heard, frozen, woken and ended, each by its own process id.

What the workers say, and Ctrl-C too, arrives in one inbox, so that the story hears one thing after the other.  Each
worker has a process group of its own: Ctrl-C in the terminal reaches the demo alone, which then ends them.  And if the
demo itself is killed, the system wakes a frozen worker, and the others find their input closed.
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

END_S = 5.0  # how long a worker that was told to end, or was killed, may take


class Trouble(Exception):
    """The demo cannot go on; the message says why."""


class Interrupted(Exception):
    """A signal asks the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Worker:
    """One process, seen from its parent."""

    def __init__(self, name: str, arguments: list[str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fencelock.demo.worker", "--name", name, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
                process_group=0,
            )
        self.pid = self._process.pid

    def listen(self, inbox: SimpleQueue[tuple[Worker, Message | None] | int]) -> None:
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
            pass  # it has died, which the inbox says next

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def check_end(self) -> None:
        """Raise Trouble unless the process has ended well."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Trouble(
                f"{self.name} (pid {self.pid}) said its last word and does not end"
            ) from None
        if code < 0:
            raise Trouble(f"{self.name} (pid {self.pid}) was killed by {_signal_name(-code)}")
        if code > 0:
            raise Trouble(
                f"{self.name} (pid {self.pid}) died: {self._last_words() or f'exit {code}'}"
            )

    def _last_words(self) -> str:
        """The last line on its standard error: of a traceback, the error itself."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def kill(self) -> None:
        """End it now, frozen or not."""
        self._process.kill()
        self._process.wait(END_S)

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # a reply was under way


class Crew:
    """All workers.  Leaving the ``with`` block ends those that still run."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self._inbox: SimpleQueue[tuple[Worker, Message | None] | int] = SimpleQueue()
        self._listeners: list[Thread] = []

    def start(self, name: str, arguments: list[str], log: Path) -> Worker:
        worker = Worker(name, arguments, log)
        self.workers.append(worker)
        listener = Thread(target=worker.listen, args=(self._inbox,), daemon=True)
        self._listeners.append(listener)
        listener.start()
        return worker

    def hear(self, deadline: float) -> tuple[Worker, Message | None]:
        """Wait for what happens next; None stands for a worker that has ended."""
        try:
            heard = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            raise Trouble("the time limit has passed: see --seconds-limit") from None
        if isinstance(heard, int):
            raise Interrupted(heard)
        return heard

    def interrupt(self, number: int, _frame: object = None) -> None:
        """A signal handler: nothing is torn apart, the story hears of it at its next step."""
        self._inbox.put(number)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()
        for listener in self._listeners:
            listener.join(END_S)
        for worker in self.workers:
            worker.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
