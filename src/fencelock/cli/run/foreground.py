"""The terminal, lent to the command's process group while it runs, as a shell would.

It is lent at the start when stdin is the terminal, so that the command can read it and Ctrl-C goes
straight to it. In a pipeline the other programs of our own group may need the terminal (a pager
does), so there it is lent only once the command asks for it.
"""

from __future__ import annotations

import os
import signal
import stat


class Foreground:
    """The terminal, if there is one and it is ours to lend."""

    def __init__(self, group: int) -> None:
        self._group = group
        self._descriptor = _find()
        self._lent = False
        if _is_terminal(0) and not _is_pipe(1) and self._is_ours():
            self._lend()

    def stopped(self, number: int) -> None:
        """The command was stopped: by Ctrl-Z, or because it used a terminal that was not lent."""
        asks = number in (signal.SIGTTIN, signal.SIGTTOU)
        if asks and self._is_ours():
            self._lend()
            _wake(self._group)
        elif asks and self._lent and self._foreground() == self._group:
            _wake(self._group)  # it asked a moment before the terminal was lent
        elif self._descriptor is not None and (asks or self._lent or self._is_ours()):
            self._suspend(asks or self._lent)

    def _suspend(self, lend: bool) -> None:
        """Stop with the command: the shell has its prompt, and the watchdog watches the lease."""
        self.take_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        if lend and self._is_ours():  # fg; after bg the terminal stays with the shell
            self._lend()
        _wake(self._group)

    def take_back(self) -> None:
        """The command has ended or sleeps: the terminal is ours again."""
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
