"""Acquire a lock for a verb; meanwhile show its holder and our position in the queue."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import FencelockError, Misconfigured, NotAcquired, OutcomeUnknown
from ..model import Meta, Scalar, State
from . import clock, terminal
from .clock import brief
from .codes import failure
from .options import LockRequest, connected
from .signals import Interrupted, Late, Signals

if TYPE_CHECKING:
    from .._client.lock_options import HoldOptions
    from ..sync import Client, Lease, Lock

SHOW_AFTER_S = 0.3  # a shorter wait is not shown
EVERY_S = 0.5
CLEAR_S = 0.2  # the thread that shows the line has this long to remove it
INTERRUPTED_S = 1.0  # after a signal, the server has this long to reply to the withdrawal
AGAIN_S = 0.3  # and after a second one: timeout(1) sends each signal twice
CLOSE_S = 5.0


@contextmanager
def reach(options: argparse.Namespace, signals: Signals) -> Generator[Client, None, None]:
    """Connect for the body and close after it; a signal ends the wait for either.

    Closing ends a wait for a lock that a signal has interrupted, and withdraws the attempt.
    """
    client = signals.call(lambda: connected(options), label="connect")
    try:
        yield client
    except BaseException as error:
        _close(client, signals, INTERRUPTED_S if isinstance(error, Interrupted) else CLOSE_S)
        raise
    _close(client, signals, CLOSE_S)


def _close(client: Client, signals: Signals, within: float) -> None:
    """Close the client; wait at most so many seconds for a server that does not answer."""
    until = clock.now() + (INTERRUPTED_S if signals.unanswered else within)
    try:
        signals.call(client.close, until, AGAIN_S, label="close")
    except (Late, Interrupted):
        pass  # an attempt that could not be withdrawn ends with its ttl


def check_excludes(client: Client, options: argparse.Namespace) -> None:
    """Refuse an engine whose locks exclude no other process; print which one is the default."""
    if client.traits.scope == "process":
        raise Misconfigured(
            f"{client.url} keeps its locks within one process, so this command would exclude "
            "nobody: name a file (sqlite:///locks.db) or a server"
        )
    named = options.url is not None or "FENCELOCK_URL" in os.environ
    if not named and not options.quiet and not options.json and terminal.is_terminal(sys.stderr):
        terminal.say(
            f"no engine was named (--url, FENCELOCK_URL): using {client.url}, which excludes "
            "only your own processes on this host"
        )


def check_portable(client: Client, what: str, ttl: float) -> None:
    """Refuse a lease that would end together with this process, or before its ttl."""
    if not client.traits.portable:
        raise Misconfigured(
            f"a lease of {client.url} ends with the process that acquired it, and {what} ends at "
            "once: use fencelock run or hold, or an engine whose leases outlive a process, such as "
            "sqlite, redis, etcd, zookeeper, or postgresql and mysql with mode=lease"
        )
    longest = client.traits.ttl_max
    if longest is not None and ttl > longest:
        raise Misconfigured(
            f"a lease of {client.url} that nobody renews lasts {brief(longest)} at most, and "
            f"{what} was asked for {brief(ttl)} (--ttl): {client.traits.advice or 'ask for less'}"
        )


def obtain(client: Client, request: LockRequest, signals: Signals, renew: bool = True) -> Lease:
    """Acquire the lock; a signal ends the wait, and closing the client then cleans up."""
    started = clock.now()
    lock = _described(client, request, renew, signals)
    try:
        with WaitStatus(client, request, not request.quiet and request.timeout != 0):
            lease = signals.call(lock.acquire, label="acquire")
    except NotAcquired as error:
        waited = clock.now() - started
        words = signals.call(lambda: _busy(client, request, waited), label="inspect")
        raise NotAcquired(words, name=request.name) from error
    signals.settle()  # closing the client releases what it holds
    return lease


def _described(client: Client, request: LockRequest, renew: bool, signals: Signals) -> Lock:
    """Return the requested lock, semaphore or side of a read/write lock."""
    options: HoldOptions = {
        "ttl": request.ttl,
        "timeout": request.timeout,
        "renew": renew,
        "meta": request.meta,
        "on_lost": lambda _: signals.wake(),
    }
    if request.limit is not None:
        return client.semaphore(request.name, limit=request.limit, **options)
    if request.role == "lock":
        return client.lock(request.name, min_hold=request.min_hold, **options)
    both = client.rwlock(request.name, **options)
    return both.read() if request.role == "read" else both.write()


@contextmanager
def announced(client: Client, name: str, signals: Signals) -> Generator[None]:
    """Announce a term to the observers of its election, when it begins and when it has ended."""
    announce = client.election(name)._announce  # pyright: ignore[reportPrivateUsage]
    threading.Thread(target=announce, name="fencelock-announce", daemon=True).start()
    try:
        yield
    finally:
        try:
            signals.call(announce, clock.now() + INTERRUPTED_S, INTERRUPTED_S, label="announce")
        except (Late, Interrupted):
            pass  # observers also look without a hint


def report_busy(error: NotAcquired, request: LockRequest, json: bool) -> int:
    """Print that the lock was not acquired, for people or programs; return the exit code."""
    if not request.quiet:
        terminal.say(str(error))
    if json:
        terminal.emit(failure(error, request.busy_code))
    return request.busy_code


def give_back(lease: Lease, signals: Signals) -> bool:
    """Release; wait for that while the lease lasts, but only ``INTERRUPTED_S`` after a signal."""
    until = clock.now() + max(lease.remaining(), INTERRUPTED_S)
    try:
        return signals.call(lease.release, until, INTERRUPTED_S, label="release")
    except (Late, Interrupted):
        raise OutcomeUnknown(
            f"the engine does not answer, and {lease.name!r} (fence {lease.fence}) may not be "
            f"released yet: it frees itself within {brief(lease.ttl)}"
        ) from None
    except FencelockError:
        signals.unanswered = True
        raise


class WaitStatus:
    """Show one line about the wait while the body runs, if stderr is a terminal."""

    def __init__(self, client: Client, request: LockRequest, wanted: bool) -> None:
        self._client = client
        self._request = request
        self._pid = request.meta.get("pid", os.getpid())
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        if wanted and terminal.is_terminal(sys.stderr):
            self._thread = threading.Thread(target=self._show, name="fencelock-line", daemon=True)

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join(CLEAR_S)

    def _show(self) -> None:
        started, shown = clock.now(), False
        wait = SHOW_AFTER_S
        while not self._done.wait(wait):
            try:
                state = self._client.inspect(self._request.name).of(self._request.kind)
            except FencelockError:
                break  # the acquire itself reports what is wrong
            if self._done.is_set():
                break
            shown, wait = True, EVERY_S
            terminal.live(describe(state, clock.now() - started, self._pid), sys.stderr)
        if shown:
            terminal.live("", sys.stderr)


def describe(state: State, waited: float, pid: Scalar) -> str:
    """Describe a wait in one line."""
    words = [f"waiting for {state.name!r} for {brief(waited)}"]
    mine = [position for position, one in enumerate(state.waiters, 1) if one.meta.get("pid") == pid]
    if mine:
        words.append(f"position {mine[0]} of {len(state.waiters)}")
    return ", ".join([*words, *held_by(state)])


def held_by(state: State) -> list[str]:
    """Name the first holder and count the others; an empty list for a free lock."""
    if not state.holders:
        return []
    first, others = state.holders[0], len(state.holders) - 1
    more = f" and {others} other{'s' * (others > 1)}" if others else ""
    return [f"held by {who(first.meta)}{more} for {brief(first.age)}"]


def who(meta: Meta) -> str:
    """Name a holder or a waiter: host, process, command."""
    name = f"{meta.get('host', '?')}/{meta.get('pid', '?')}"
    return f"{name} ({meta['command']})" if meta.get("command") else name


def _busy(client: Client, request: LockRequest, waited: float) -> str:
    """Describe who holds the lock, how many wait, and how to see more."""
    import shlex

    name = request.name
    words = [f"could not acquire {name!r}" + (f" in {brief(waited)}" if waited >= 0.05 else "")]
    try:
        state = client.inspect(name).of(request.kind)
    except FencelockError:
        state = State(name)  # the lock is not ours: that much is certain
    words += held_by(state)
    words += [f"{len(state.waiters)} waiting"] if state.waiters else []
    return f"{', '.join(words)}; see: fencelock show {shlex.quote(name)}"
