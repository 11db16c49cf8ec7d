"""A person at a terminal: a pty, what it shows, and what is typed at it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.cli.program import SHOW_AFTER_S, Program

# What a shell does for one job: a group of its own, the terminal, and `fg` after Ctrl-Z.
SHELL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        break
    print("[stopped]", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
print("[ended with %d]" % os.waitstatus_to_exitcode(status), flush=True)
"""


class Typist:
    """One command in a terminal of its own."""

    def __init__(self, program: Program, words: Sequence[str], **environment: str) -> None:
        self.seen = ""
        self._terminal, side = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", SHELL, *words],
            stdin=side,
            stdout=side,
            stderr=side,
            cwd=program.folder,
            env={**program.environment, **environment},
            start_new_session=True,
        )
        os.close(side)

    def see(self, *words: str) -> str:
        """Read until all of these words were shown after one another; return all that was."""
        until = time.monotonic() + SHOW_AFTER_S
        place = 0
        for word in words:
            while (found := self.seen.find(word, place)) < 0:
                assert time.monotonic() < until, f"{word!r} is not in {self.seen!r}"
                if select.select([self._terminal], [], [], 0.1)[0]:
                    try:
                        self.seen += os.read(self._terminal, 4096).decode(errors="replace")
                    except OSError:  # the last process of the terminal has ended
                        assert word in self.seen[place:], f"{word!r} is not in {self.seen!r}"
            place = found + len(word)
        return self.seen

    def type(self, keys: str) -> None:
        """Type at the terminal."""
        os.write(self._terminal, keys.encode())

    def close(self) -> None:
        """End the shell, and with it the terminal."""
        self._process.kill()
        os.close(self._terminal)
        self._process.wait(SHOW_AFTER_S)
