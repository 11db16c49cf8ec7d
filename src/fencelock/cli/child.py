"""The command as a process group of its own, and the terminal that is lent to it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from . import codes


class CannotRun(Exception):
    """The command cannot be started; ``code`` says why in the way of timeout(1)."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Child:
    """One command that runs."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], pass_fds: Sequence[int]
    ) -> None:
        try:
            self._process = subprocess.Popen(
                list(command), env=dict(environment), pass_fds=tuple(pass_fds), process_group=0
            )
        except FileNotFoundError as error:
            missing = error.filename if error.filename not in (None, command[0]) else command[0]
            raise CannotRun(f"{missing!r} was not found", codes.NOT_FOUND) from None
        except OSError as error:
            reason = "is no program" if error.errno == errno.ENOEXEC else error.strerror
            raise CannotRun(
                f"{command[0]!r} cannot be run: {reason}", codes.NOT_EXECUTABLE
            ) from None
        except ValueError as error:  # a NUL in an argument
            raise CannotRun(f"the command cannot be run: {error}", codes.NOT_EXECUTABLE) from None
        self.pid = self._process.pid
        self.code: int | None = None
        """The exit code, 128+N for a death by signal N, once it has ended."""
        self._terminal = _Terminal(self.pid)

    def send(self, number: int) -> None:
        """Send a signal to the whole group."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended

    def look(self) -> bool:
        """Whether it has ended. When it was stopped from the terminal, we stop with it."""
        if self.code is not None:
            return True
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            pid, status = self.pid, 0
        if pid == 0:
            return False
        if os.WIFSTOPPED(status):
            self._terminal.suspend(self)
            return False
        ended = os.waitstatus_to_exitcode(status)
        self.code = codes.SIGNALLED - ended if ended < 0 else ended
        self._process.returncode = ended  # Popen must not wait for it again
        self._terminal.take_back()
        return True


class _Terminal:
    """The terminal, if there is one and it is ours to lend."""

    def __init__(self, group: int) -> None:
        self._group = group
        self._descriptor = self._find()
        self._lend()

    def _find(self) -> int | None:
        try:
            descriptor = sys.stdin.fileno()
            if os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp():
                return descriptor
        except (OSError, ValueError, AttributeError):
            pass
        return None

    def _lend(self) -> None:
        if self._descriptor is not None:
            self._set_foreground(self._group)
            try:
                os.killpg(self._group, signal.SIGCONT)  # it may have asked for input too early
            except (ProcessLookupError, PermissionError):
                pass

    def take_back(self) -> None:
        """The command has ended: the terminal is ours again."""
        if self._descriptor is not None:
            self._set_foreground(os.getpgrp())

    def suspend(self, child: Child) -> None:
        """Ctrl-Z stopped the command: give the shell its prompt, and go on when it says so."""
        if self._descriptor is None:
            return
        self.take_back()
        os.kill(os.getpid(), signal.SIGSTOP)  # the watchdog sees to the lease meanwhile
        self._lend()

    def _set_foreground(self, group: int) -> None:
        assert self._descriptor is not None
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            os.tcsetpgrp(self._descriptor, group)
        except OSError:
            pass  # the terminal is gone
        finally:
            signal.signal(signal.SIGTTOU, before)
