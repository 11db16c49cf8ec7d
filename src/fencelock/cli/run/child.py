"""Start the command as a process group of its own, signal it, and lend it the terminal."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Mapping, Sequence

from .. import codes


def alive(group: int) -> bool:
    """Return whether any process of a group is left."""
    if group <= 0:
        return False
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def send(group: int, number: int) -> None:
    """Signal a whole group. A stopped one is continued, or it could not act on a request to end."""
    if group <= 0:
        return
    try:
        os.killpg(group, number)
        if number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.killpg(group, signal.SIGCONT)
    except OSError:
        pass  # it has ended


def find_by_pipe(inode: int) -> int:
    """Return the group of a process that has a pipe open, or 0. Only Linux can tell."""
    wanted = f"pipe:[{inode}]"
    for pid in _pids():
        folder = f"/proc/{pid}/fd"
        try:
            if any(os.readlink(f"{folder}/{entry}") == wanted for entry in os.listdir(folder)):
                return os.getpgid(pid)
        except OSError:
            continue  # it has ended, or is not ours
    return 0


def _pids() -> list[int]:
    try:
        found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [pid for pid in found if pid != os.getpid()]


_OURS = ("SIGPIPE", "SIGXFSZ")  # Python ignores them, the command should not


class CannotRun(Exception):
    """The command cannot be started; ``code`` is the exit code that timeout(1) has for it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Child:
    """A running command."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], lease_pipe: int
    ) -> None:
        os.set_inheritable(lease_pipe, True)
        self.group = _spawn(command, environment)
        self.code: int | None = None
        """The exit code, 128+N after a death by signal N; None until the command has ended."""
        self._terminal = Foreground(self.group)

    def send(self, number: int) -> None:
        """Send a signal to the whole group."""
        send(self.group, number)

    def has_rest(self) -> bool:
        """Return whether other processes of the group are left after the command has ended."""
        return alive(self.group)

    def look(self) -> bool:
        """Return whether it has ended. If it was stopped from the terminal, stop with it."""
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
    """Start the command and return its process id, which is also the id of its group.

    It gets the descriptors that we inherited, as with env(1); those that we opened are closed by
    the exec. The module subprocess would do the same, and take longer to import than the command
    to start.
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
    """Return whether there is such a file: an unreadable folder of PATH is the same error."""
    folders = [""] if os.sep in program else os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.path.exists(os.path.join(folder, program)) for folder in folders)


class Foreground:
    """The terminal, lent to the command's process group while it runs, as by a shell.

    It is lent at the start when stdin is the terminal, so that the command can read it and Ctrl-C
    goes straight to it. In a pipeline the other programs of our own group may need the terminal (a
    pager does), so there it is lent only once the command tries to use it.
    """

    def __init__(self, group: int) -> None:
        self._group = group
        self._descriptor = _find()
        self._lent = False
        if _is_terminal(0) and not _is_pipe(1) and self._is_ours():
            self._lend()

    def stopped(self, number: int) -> None:
        """Handle a stop of the command: by Ctrl-Z, or by using a terminal that was not lent."""
        asks = number in (signal.SIGTTIN, signal.SIGTTOU)
        if asks and self._is_ours():
            self._lend()
            _wake(self._group)
        elif asks and self._lent and self._foreground() == self._group:
            _wake(self._group)  # it was stopped a moment before the terminal was lent
        elif self._descriptor is not None and (asks or self._lent or self._is_ours()):
            self._suspend(asks or self._lent)

    def _suspend(self, lend: bool) -> None:
        """Stop this process too: the shell shows its prompt, the watchdog watches the lease."""
        self.take_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        if lend and self._is_ours():  # fg; after bg the terminal stays with the shell
            self._lend()
        _wake(self._group)

    def take_back(self) -> None:
        """Take the terminal back from a command that has ended or is stopped."""
        if self._lent:
            self._lent = False
            self._set_foreground(os.getpgrp())

    def _lend(self) -> None:
        self._lent = True
        self._set_foreground(self._group)

    def _is_ours(self) -> bool:
        return self._foreground() == os.getpgrp()

    def _foreground(self) -> int | None:
        try:
            return None if self._descriptor is None else os.tcgetpgrp(self._descriptor)
        except OSError:
            return None

    def _set_foreground(self, group: int) -> None:
        assert self._descriptor is not None
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            os.tcsetpgrp(self._descriptor, group)
        except OSError:
            pass  # the terminal is gone, or the group is
        finally:
            signal.signal(signal.SIGTTOU, before)


def _find() -> int | None:
    try:
        return 0 if _is_terminal(0) else os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _wake(group: int) -> None:
    try:
        os.killpg(group, signal.SIGCONT)
    except OSError:
        pass
