"""The watchdog: a process beside the wrapper that stops the command before the lease can end.

It is a process of its own because the wrapper may be the one that is frozen, killed or starved of
time: a dead man's switch. The wrapper tells it, again and again, until when the lease is good. If
that stops, or the wrapper dies, the watchdog ends the command's process group in time. It also
keeps the writing end of the lease pipe: the pipe reaches EOF whatever happens to the wrapper.

It is forked before the wrapper starts any thread or opens any engine, and knows nothing about
locks. When the wrapper was killed and the command has ended, it runs ``fencelock release``, so that
nobody waits for the end of the ttl. The wrapper's orders to it are lines of text:

    keep SECONDS      hold the lock until this moment of the boot clock at least
    lease JSON        how to release: the environment of ``fencelock release``
    spawn             the command is about to be started
    group PGID        the command runs as this process group
    until SECONDS     the lease is good until this moment of the boot clock
    lost              the lease is gone: do now what would be done in time
    quit              the command has ended
"""

from __future__ import annotations

import os
import select
import signal

from .. import clock
from .child import alive, find_by_pipe, send
from .kill_plan import KillPlan, Watch

QUIT_S = 1.0  # how long a watchdog may take to exit
OVER_S = 2.0  # a command that was killed is gone within this, or the lock waits for its ttl
OVER_TICK_S = 0.02
KEEP_MIN_S = 0.1  # the shortest rest of a hold that a ttl can express
ALONE_S = 0.1  # without a wrapper, look this often whether the command is over


class Watchdog:
    """The watchdog as the wrapper sees it: its orders, its reports and the lease pipe."""

    def __init__(self, plan: KillPlan) -> None:
        orders_in, self._orders = os.pipe()
        self._reports, reports_out = os.pipe()
        self.lease_pipe, lease_end = os.pipe()
        self.plan = plan
        self.fired = False
        """It has ended the command, or begun to."""
        self.gone = False
        """It was killed or has exited: the supervisor has to watch."""
        self.pid = os.fork()
        if self.pid == 0:
            _serve(Watch(plan), orders_in, reports_out, lease_end)
        for descriptor in (orders_in, reports_out, lease_end):
            os.close(descriptor)
        os.set_blocking(self._orders, False)
        os.set_blocking(self._reports, False)

    def fileno(self) -> int:
        """Return the descriptor that is readable when the watchdog has fired or is gone."""
        return self._reports

    def tell(self, order: str) -> None:
        """Send an order; a watchdog that does not read it fires for lack of orders, or is gone."""
        try:
            os.write(self._orders, f"{order}\n".encode())
        except OSError:
            pass

    def look(self) -> bool:
        """Read its reports and return whether the watchdog has fired."""
        try:
            word = os.read(self._reports, 64)
        except OSError:
            return self.fired  # nothing to read
        self.fired = self.fired or bool(word)
        self.gone = self.gone or not word
        return self.fired

    def close(self) -> None:
        """Have the watchdog exit once the command has ended; kill it if it does not."""
        self.tell("quit")
        while not self.gone and select.select([self._reports], [], [], QUIT_S)[0]:
            self.look()
        if not self.gone:  # it was stopped, as by SIGSTOP
            os.kill(self.pid, signal.SIGKILL)
        for descriptor in (self._orders, self._reports, self.lease_pipe):
            os.close(descriptor)
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:
            pass  # SIGCHLD is ignored, as our parent had it


def _serve(watch: Watch, orders: int, reports: int, lease_end: int) -> None:
    """Run the watchdog in its own process; never return."""
    try:
        os.setsid()  # what is sent to the wrapper's group or typed at its terminal is not for us
        for number in (1, 2, 3, signal.SIGTERM, signal.SIGPIPE):  # 1 to 3: HUP, INT, QUIT
            signal.signal(number, signal.SIG_IGN)
        _close_other_descriptors({orders, reports, lease_end})
        _WatchdogLoop(watch, orders, reports, lease_end).main()
    finally:
        os._exit(0)


def _close_other_descriptors(keep: set[int]) -> None:
    """Close the wrapper's descriptors: a reader of its output must see EOF when it ends."""
    try:
        held = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        held = list(range(256))
    for descriptor in held:
        if descriptor not in keep:
            os.closerange(descriptor, descriptor + 1)  # a close() that does not complain


class _WatchdogLoop:
    """The loop of the watchdog: reads orders and sends due signals until the command has ended."""

    def __init__(self, watch: Watch, orders: int, reports: int, lease_end: int) -> None:
        self._watch = watch
        self._orders = orders
        self._reports = reports
        self._lease_end = lease_end
        self._lease_inode = os.fstat(lease_end).st_ino
        self._text = b""
        self._spawning = False
        self._group = 0
        self._lease = ""
        self._keep_until = 0.0
        self._quit = False

    def main(self) -> None:
        self._watch_command()
        if not self._quit and self._lease and self._command_is_over():
            _release(self._lease, self._keep_until - clock.now())

    def _watch_command(self) -> None:
        while not self._quit and (self._orders >= 0 or self._has_work()):
            sources = [self._orders] if self._orders >= 0 else []
            ready, _, _ = select.select(sources, [], [], self._nap())
            signals = self._read() if ready else []
            signals += self._watch.look(clock.now())
            if self._watch.ended and self._lease_end >= 0:
                self._end()
            for number in signals:
                send(self._group, number)

    def _command_is_over(self) -> bool:
        """Return whether no process is left that may work under the lock; allow a KILL a moment."""
        if self._spawning and not self._group:
            return False  # it may run, and was not found
        until = clock.now() + OVER_S
        while alive(self._group) and self._watch.killed and clock.now() < until:
            select.select([], [], [], OVER_TICK_S)
        return not alive(self._group)

    def _has_work(self) -> bool:
        return self._watch.next_at() is not None and alive(self._group)

    def _nap(self) -> float | None:
        due = self._watch.next_at()
        if due is None:
            return None
        nap = max(0.0, due - clock.now())
        return nap if self._orders >= 0 else min(nap, ALONE_S)

    def _read(self) -> list[int]:
        chunk = os.read(self._orders, 4096)
        if not chunk:
            return self._on_wrapper_death()
        *lines, self._text = (self._text + chunk).split(b"\n")
        return [number for line in lines for number in self._obey(line.decode())]

    def _obey(self, order: str) -> list[int]:
        word, _, value = order.partition(" ")
        if word == "spawn":
            self._spawning = True
        elif word == "group":
            self._group = int(value)
            if self._watch.ended and self._watch.plan.kill:
                return [signal.SIGKILL]  # it began after the end
        elif word == "lease":
            self._lease = value
        elif word == "keep":
            self._keep_until = float(value)
        elif word == "until":
            self._watch.until = float(value)
        elif word == "lost":
            return self._watch.lose(clock.now())
        elif word == "quit":
            self._quit = True
        return []

    def _on_wrapper_death(self) -> list[int]:
        """Handle the wrapper's death, perhaps before it could send which group it started."""
        self._orders = -1
        if self._spawning and not self._group:
            self._group = find_by_pipe(self._lease_inode)
        return self._watch.orphaned(clock.now())

    def _end(self) -> None:
        """Report the end of the lease: to the command by EOF, and to the wrapper."""
        os.close(self._lease_end)
        self._lease_end = -1
        try:
            os.write(self._reports, b"!")
        except OSError:
            pass  # the wrapper is gone


def _release(lease: str, keep_s: float) -> None:
    """Run ``fencelock release`` as a program: this process was forked before any engine was opened.

    A lock that is to be held for longer is renewed for the rest of that time instead.
    """
    import json
    import sys

    null = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in (0, 1, 2)]
    words = ["release"] if keep_s <= 0 else ["renew", "--ttl", f"{max(keep_s, KEEP_MIN_S):.3f}"]
    command = [sys.executable, "-m", "fencelock", *words]
    os.posix_spawn(sys.executable, command, {**os.environ, **json.loads(lease)}, file_actions=null)
