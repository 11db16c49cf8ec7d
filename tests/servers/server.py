"""A real server that the tests start: on a free port of loopback, in a temporary folder.

A server of one kind is one file beside this one: it says how to make the folder ready, which
command to run and how to see that it answers. Whoever starts one stops it, by its process id.
Benchmarks use the same classes.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

PORTS = range(12_000, 32_000)  # below those that the kernel gives to connections
SHARES = 64  # of them, one for each process that starts servers, of all runs on a machine
START_S = 120.0  # far more than any of them takes on a busy machine
STOP_S = 60.0
LOOK_S = 0.02


class NotStarted(Exception):
    """A server did not come up; the message has the end of its log."""


class Missing(NotStarted):
    """A program is not installed; the message says how to get it."""


class Server(ABC):
    """One process that serves. Use it as a context manager, or call start and stop."""

    package: ClassVar[str]
    """The Debian package that has the program."""

    def __init__(self, folder: Path | None = None, port: int | None = None) -> None:
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="fencelock-server-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}
        """Added to the server's environment: a preloaded clock, for instance."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What to run."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves. Called again and again; may raise while it does not."""

    def prepare(self) -> None:
        """Make the folder ready, before the first start."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server is not running"
        return self.process.pid

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> Self:
        """Start, and return when it answers."""
        if not (self.folder / ".prepared").exists():
            self.prepare()
            (self.folder / ".prepared").touch()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*with_us(), *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                process_group=0,  # Ctrl-C in the terminal is for the tests to handle
            )
        until(self.answers, f"{type(self).__name__} to answer", self._why_not)
        return self

    def _why_not(self) -> str:
        """The reason why waiting is useless, or nothing."""
        if self.process is None or self.process.poll() is None:
            return ""
        tail = self.log.read_text(errors="replace")[-2000:]
        return f"it ended with {self.process.returncode}:\n{tail}"

    def pause(self) -> None:
        """Freeze it, as a machine that hangs. None of its threads answers any more after that."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it as a power cut does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_S)
            self.process = None

    def stop(self) -> None:
        """End it in good order, and by force if it does not."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_S)
        self.process = None

    def restart(self) -> None:
        """Stop in good order and start again, on the same port and folder."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop. If we made the folder it goes too: by force then, in good order takes seconds."""
        if self._own_folder:
            self.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            self.stop()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def with_us() -> list[str]:
    """What has a command end when we are killed, which leaves us no time to stop it.

    The kernel watches the thread that starts it, so only the main thread can have it that way.
    """
    found = shutil.which("setpriv")
    if found is None or threading.current_thread() is not threading.main_thread():
        return []
    return [found, "--pdeathsig", "KILL"]


def program(name: str, package: str, *folders: str) -> str:
    """The full path of a program, which may lie outside of PATH."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", *folders])
    found = shutil.which(name, path=path)
    if found is None:
        raise Missing(f"{name} is not installed: sudo apt-get install {package}")
    return found


def free_port() -> int:
    """A port of loopback that nobody uses now, and that no other run of the tests is given later.

    Not one of those that the kernel gives to connections: until a server has it, it may be gone.
    """
    for port in _own_ports():
        if (held := _bind(port)) is not None:
            held.close()
            return port
    raise NotStarted("all ports are in use")  # the iterator has no end: for the type checker


@cache
def _own_ports() -> Iterator[int]:
    """The share of this process, round and round, beginning anywhere.

    A port drawn at random would now and then be drawn twice, by one process or by two, before
    the first server that was given it listens. Whoever has bound the first port of a share has
    the share, and keeps it for as long as it lives: so do the workers of two runs at a time.
    """
    for share in range(SHARES):
        mark, *ports = PORTS[share::SHARES]
        if (held := _bind(mark)) is not None:
            held.detach()  # it ends with the process
            begin = random.SystemRandom().randrange(len(ports))
            return itertools.cycle([*ports[begin:], *ports[:begin]])
    raise NotStarted(f"{SHARES} processes have all the ports")


def _bind(port: int) -> socket.socket | None:
    """Take a port, if it is there to be taken."""
    taken = socket.socket()
    try:
        taken.bind(("127.0.0.1", port))
    except OSError:
        taken.close()
        return None
    return taken


def until(
    holds: Callable[[], object],
    what: str,
    why_not: Callable[[], str] = lambda: "",
    within: float = START_S,
) -> None:
    """Wait for something that is seen by looking; errors while looking mean not yet."""
    give_up = time.monotonic() + within
    last: Exception | None = None
    while time.monotonic() < give_up:
        if why := why_not():
            raise NotStarted(f"waited for {what}, but {why}")
        try:
            if holds():
                return
        except Exception as error:
            last = error
        time.sleep(LOOK_S)
    raise NotStarted(f"waited {within:g} s for {what}; last seen: {last!r}")
