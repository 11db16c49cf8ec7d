"""Handle signals to the wrapper: they end its wait, or are forwarded to the command.

Python runs signal handlers only in the main thread, and only between two instructions: a main
thread that sleeps in a driver, a socket or a lock runs none. So it never sleeps there. Calls to
the engine run in a thread of their own (``Signals.call``), and the main thread sleeps in a
``select`` on the pipe into which Python writes the number of each signal. This holds for every
engine, whatever its driver does.

A signal ends the *wait for* such a call and not the call itself. Closing the client does that, in
bounded time: it ends every wait for a lock and withdraws the attempt (``acquisition.reach``). A
call that does not even then end, because the server does not answer, is left behind, and the
process ends without it (``leave``).
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Generic, TypeVar

from . import clock

T = TypeVar("T")

FORWARDED = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")
    if hasattr(signal, name)
)
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
NEVER = float("inf")

_calls: list[_Call[object]] = []


class Interrupted(BaseException):
    """A signal ended the wait. Not an Exception: nothing on the way may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Late(Exception):
    """A call to the engine has not ended in time. It goes on in its thread."""


class Signals:
    """The signal handlers while the process waits for a lock and holds it."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._before: dict[int, object] = {}
        self._old_fd = -1
        self.unanswered = False
        """A call was left behind, or a release failed: the engine is not worth waiting for."""

    def fileno(self) -> int:
        """Return the descriptor that is readable when a signal has come."""
        return self._read

    def __enter__(self) -> Signals:
        self._old_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*FORWARDED, signal.SIGCHLD):
            if signal.getsignal(number) is signal.SIG_IGN and number in FORWARDED:
                continue  # nohup and friends: what was ignored stays ignored, for the child too
            self._before[number] = signal.signal(number, _note)
        return self

    def __exit__(self, *error: object) -> None:
        signal.set_wakeup_fd(self._old_fd)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() itself gave us
        # The pipe stays open: a call that was left behind may still write to it, and the number
        # of a closed descriptor would be somebody else's by then.

    def call(
        self, work: Callable[[], T], until: float = NEVER, grace: float = 0.0, label: str = "call"
    ) -> T:
        """Run a call that may block in a thread of its own, and return what it returns.

        Raise Late when the call has not ended at ``until``, and Interrupted when a signal comes
        that ends this process: with a grace, only if the call has not ended that long after it.
        """
        call, number = _Call(work, self.wake, f"fencelock-{label}"), 0
        while not call.done:
            now = clock.now()
            if now >= until:
                self.unanswered = True
                raise Interrupted(number) if number else Late(label)
            select.select([self._read], [], [], None if until == NEVER else until - now)
            if not number and (number := self.ending()):
                until = min(until, clock.now() + grace)
        if number and not grace:
            raise Interrupted(number)  # both came at once, and the signal was taken from the pipe
        return call.result()

    def settle(self) -> None:
        """Raise Interrupted if a signal came that ends the wait; later signals do not end it."""
        if number := self.ending():
            raise Interrupted(number)

    def wake(self) -> None:
        """Wake the main thread's select, from any thread."""
        try:
            os.write(self._write, b"\0")
        except OSError:
            pass

    def ending(self) -> int:
        """Return the first signal since the last call that ends this process, or 0."""
        return next((number for number in self.take() if number in ENDING), 0)

    def take(self) -> list[int]:
        """Return the numbers of the signals that have come since the last call."""
        try:
            return [number for number in os.read(self._read, 4096) if number]
        except OSError:
            return []


class _Call(Generic[T]):
    """A call in a daemon thread, which calls ``tell`` when it has ended."""

    def __init__(self, work: Callable[[], T], tell: Callable[[], object], label: str) -> None:
        self._work = work
        self._tell = tell
        self._answer: list[T] = []
        self._error: BaseException | None = None
        self.done = False
        _calls[:] = [call for call in _calls if not call.done]
        _calls.append(self)  # type: ignore[arg-type]  # looked at only for whether it has ended
        threading.Thread(target=self._run, name=label, daemon=True).start()

    def _run(self) -> None:
        try:
            self._answer.append(self._work())
        except BaseException as error:  # raised where the result is wanted
            self._error = error
        self.done = True
        self._tell()

    def result(self) -> T:
        """Return or raise what the call did, once: an error kept here would keep its frames alive,
        and all that they have open, until the interpreter ends."""
        error, self._error = self._error, None
        if error is None:
            return self._answer.pop()
        try:
            raise error
        finally:
            del error


def _note(number: int, frame: FrameType | None) -> None:
    """Do nothing: Python has written the number into the pipe."""


def leave(code: int) -> int:
    """Return the exit code, or end the process with it when a call is left behind: on its way out
    the interpreter would close the client once more, and wait for a server that does not answer.
    """
    if all(call.done for call in _calls):
        return code
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]  # it was closed
                stream.flush()
        except (OSError, ValueError):
            pass
    os._exit(code)
