"""The command as a process group of its own."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping, Sequence

from .. import codes
from . import process_group
from .foreground import Foreground

_OURS = ("SIGPIPE", "SIGXFSZ")  # Python ignores them, the command should not


class CannotRun(Exception):
    """The command cannot be started; ``code`` says why in the way of timeout(1)."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Child:
    """One command that runs."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], lease_pipe: int
    ) -> None:
        os.set_inheritable(lease_pipe, True)
        self.group = _spawn(command, environment)
        self.code: int | None = None
        """The exit code, 128+N for a death by signal N, once it has ended."""
        self._terminal = Foreground(self.group)

    def send(self, number: int) -> None:
        """Send a signal to the whole group."""
        process_group.send(self.group, number)

    def has_rest(self) -> bool:
        """Whether others of its group are left after it has ended."""
        return process_group.alive(self.group)

    def look(self) -> bool:
        """Whether it has ended. When it was stopped from the terminal, we stop with it."""
        if self.code is not None:
            return True
        try:
            pid, status = os.waitpid(self.group, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            pid, status = self.group, 0
        if pid == 0:
            return False
        if os.WIFSTOPPED(status):
            self._terminal.stopped(os.WSTOPSIG(status))
            return False
        ended = os.waitstatus_to_exitcode(status)
        self.code = codes.SIGNALLED - ended if ended < 0 else ended
        self._terminal.take_back()
        return True


def _spawn(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Start it and return its process id, which is that of its group too.

    It has what we inherited, as with env(1); what we opened ourselves closes by itself. The module
    subprocess would do the same, and take longer to import than the command to start.
    """
    ours = [getattr(signal, name) for name in _OURS if hasattr(signal, name)]
    try:
        return os.posix_spawnp(
            command[0], list(command), dict(environment), setpgroup=0, setsigdef=ours
        )
    except FileNotFoundError:
        raise CannotRun(f"{command[0]!r} was not found", codes.NOT_FOUND) from None
    except OSError as error:
        if isinstance(error, PermissionError) and not _is_anywhere(command[0]):
            raise CannotRun(f"{command[0]!r} was not found", codes.NOT_FOUND) from None
        reason = "it is not a program" if error.errno == errno.ENOEXEC else error.strerror
        raise CannotRun(f"{command[0]!r} cannot be run: {reason}", codes.NOT_EXECUTABLE) from None
    except ValueError as error:  # a NUL in an argument
        raise CannotRun(f"the command cannot be run: {error}", codes.NOT_EXECUTABLE) from None


def _is_anywhere(program: str) -> bool:
    """Whether there is such a file: a folder of PATH that cannot be read says nothing."""
    folders = [""] if os.sep in program else os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.path.exists(os.path.join(folder, program)) for folder in folders)
