"""Signals to the wrapper: they end its wait, and while the command runs they are passed on.

Python runs handlers only in the main thread between two instructions, so the numbers also go to a
pipe that the supervisor's loop reads.

A wait is ended by an exception, and only at the one place where the main thread sleeps for its
turn: there nothing is half done, and the withdrawal that follows leaves neither a lock nor a place
in the queue behind. A signal that comes at another moment is tried again until it is that moment,
or until the lock is had and given back. While we still connect there is nothing to leave behind,
and a signal ends that wherever it is.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, TracebackType

FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
)
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
AGAIN_S = 0.02
LESS_OFTEN = 2  # each time, because a wait of the kernel's own begins anew with every signal


class Interrupted(BaseException):
    """A signal ended the wait. Not an Exception: nothing on the way may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Signals:
    """The handlers, for as long as a lock is waited for and held."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before: dict[int, object] = {}
        self._old_fd = -1
        self._waiting = True
        self._connecting = False
        self._pending: int | None = None
        self._again = AGAIN_S

    def fileno(self) -> int:
        """Readable when a signal has come."""
        return self._read

    def __enter__(self) -> Signals:
        self._old_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*FORWARDED, signal.SIGALRM, signal.SIGCHLD):
            if signal.getsignal(number) is signal.SIG_IGN and number in FORWARDED:
                continue  # nohup and friends: what was ignored stays ignored, for the child too
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.set_wakeup_fd(self._old_fd)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() itself gave us
        os.close(self._read)
        os.close(self._write)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._waiting or number not in (*ENDING, signal.SIGALRM):
            return
        if number != signal.SIGALRM and self._pending is None:
            self._pending = number
        if self._pending is not None and (number == signal.SIGALRM or self._again == AGAIN_S):
            signal.setitimer(signal.ITIMER_REAL, self._again)
            self._again *= LESS_OFTEN
        if self._pending is not None and (self._connecting or _asleep(frame)):
            self._waiting = False  # a second one must not break the withdrawal
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Interrupted(self._pending)

    @contextmanager
    def connecting(self) -> Generator[None, None, None]:
        """Nobody holds or queues yet."""
        self._connecting = True
        try:
            yield
        finally:
            self._connecting = False

    def settle(self) -> None:
        """The wait is over: raise if a signal came that ends it, and pass later ones on."""
        self._waiting = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in self.take():
            if number in ENDING:
                raise Interrupted(number)

    def wake(self) -> None:
        """Make the loop look, from any thread."""
        try:
            os.write(self._write, b"\0")
        except OSError:
            pass

    def take(self) -> list[int]:
        """The numbers that have come since the last call."""
        try:
            return [number for number in os.read(self._read, 4096) if number]
        except OSError:
            return []


def _asleep(frame: FrameType | None) -> bool:
    """Whether the main thread sleeps in the wait of its World, and nowhere else."""
    while frame is not None and frame.f_globals.get("__name__") == "threading":
        frame = frame.f_back
    return (
        frame is not None
        and frame.f_code.co_name == "wait"
        and frame.f_globals.get("__name__") == "fencelock.worlds.threads"
    )
