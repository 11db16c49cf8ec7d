"""Take back attempts and locks whose withdrawal or release was not confirmed in time.

* An undo is recorded first and tried then: whatever interrupts the caller, the record stays.
* The caller waits for it for a bounded time. One job of the client goes on in the background, with
  a back-off that all undos share, until the engine has confirmed: a queue entry or a lock that
  nobody knows of would otherwise keep others out.
* A request without a reply may reach the engine after the undo that was sent on another connection.
  So the undo of such an attempt is repeated once, a while after it was confirmed.
* ``Engine.withdraw`` and ``Engine.release`` are conditioned on the owner, so that repeating them
  harms nobody.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from .. import observe
from ..engine import Engine
from ..errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ..model import Grant, Owed, Request
from ..world import GRACE_S, Job, World, snapshot
from . import policy
from .events import timed

PASS_S = 5.0  # the longest that one try in the background waits for an engine that is silent
ECHO_S = 2.0  # after which a request without a reply has reached the engine, or never will


class _Undo:
    """One request that takes back an attempt or a lock."""

    def __init__(
        self,
        owed: Owed,
        call: Callable[[], Coroutine[Any, Any, object]],
        confirmed: Callable[[], None] | None = None,
        echoes: bool = False,
    ) -> None:
        self.owed = owed
        self.call = call
        self.on_confirmed = confirmed
        self.echoes = echoes
        """Whether to repeat it once after it was confirmed."""
        self.is_confirmed = False
        self.tried_by: Callable[[], object] = _nobody
        """A weak reference to the ``_Try`` of the caller or the job that tries it now: an exception
        can end that call at any bytecode."""
        self.due = 0.0


class _Try:
    """Lives as long as the call that tries to undo something."""

    __slots__ = ("__weakref__",)


def _nobody() -> None:
    return None


class Pending:
    """The undos of one client that were not confirmed yet."""

    def __init__(self, world: World, engine: Engine) -> None:
        self._world = world
        self._engine = engine
        self._undos: dict[str, _Undo] = {}
        self._generation = world.generation()
        self._mutex = world.mutex()
        self._wake = world.signal()
        self._idle = world.signal()
        self._job: Job | None = None
        self._stopped = False

    def owed(self) -> tuple[Owed, ...]:
        """Return the undos that are not confirmed yet, the oldest first."""
        return tuple(undo.owed for undo in list(self._undos.values()) if not undo.is_confirmed)

    async def withdraw(
        self,
        request: Request,
        limit: float,
        attempts: dict[str, Any],
        doubted: bool,
        watched: bool,
    ) -> bool:
        """Take an attempt back; False when that was not confirmed by the limit and goes on.

        From here on it is not in ``attempts``, whatever interrupts the caller. ``doubted``: one of
        its requests may still be under way. ``watched``: it may have a watch.
        """
        owed = Owed(request.name, "withdraw", self._world.now())
        undo = _Undo(owed, lambda: self._leave(request, watched), echoes=doubted)
        mine = _Try()
        undo.tried_by = weakref.ref(mine)
        self._undos[request.owner] = undo
        try:
            attempts.pop(request.owner, None)
            if limit > self._world.now():
                await self._world.shield(self._try(request.owner, undo, limit))
        finally:
            del mine
            if request.owner in self._undos:
                self._start()
        return undo.is_confirmed

    def withdraw_later(self, request: Request) -> None:
        """Take back, in the background, an attempt of which nobody knows how far it got."""
        owed = Owed(request.name, "withdraw", self._world.now())
        undo = _Undo(owed, lambda: self._leave(request, watched=True), echoes=True)
        self._undos.setdefault(request.owner, undo)
        self._start()

    def go_on(self) -> None:
        """Go on in the background with undos whose callers were interrupted at any bytecode."""
        if self._undos and self._job is None:
            self._start()

    async def _leave(self, request: Request, watched: bool) -> None:
        if watched:
            await unwatch(self._engine, request)
        if observe.callers:
            await timed(self._world, self._engine, self._engine.withdraw, request)
        else:
            await self._engine.withdraw(request)

    def release(
        self,
        grant: Grant,
        call: Callable[[], Coroutine[Any, Any, bool]],
        confirmed: Callable[[], None],
    ) -> None:
        """Go on with a release in the background, and retry ``call`` until the engine confirms."""
        owed = Owed(grant.name, "release", self._world.now())
        self._undos[grant.owner] = _Undo(owed, call, confirmed)
        self._start()

    def forget(self, owner: str) -> None:
        """Drop the undo of an owner: the engine has confirmed the release to another caller."""
        self._undos.pop(owner, None)

    def stop(self) -> None:
        """Stop retrying."""
        self._stopped = True
        self._wake.set()

    async def close(self, deadline: float) -> None:
        """Try all undos now and again until the deadline, then stop."""
        for owner, undo in snapshot(self._undos):
            undo.due, undo.echoes = 0.0, False
            if undo.is_confirmed:
                self._undos.pop(owner, None)
        if self._undos:
            self._start()
            if self._job is not None:
                await self._world.wait(self._idle, deadline)
        self.stop()
        if owed := self.owed():
            names = ", ".join(sorted({repr(one.name) for one in owed})[:5])
            observe.warn(
                f"{len(owed)} request(s) were not confirmed when the client was closed "
                f"({names}): what they left in the engine ends with its ttl"
            )

    async def _try(self, owner: str, undo: _Undo, limit: float) -> bool:
        """Send an undo, a few times while its outcome is unknown; True once it is confirmed."""
        for _ in range(policy.UNKNOWN_TRIES):
            try:
                with self._world.until(limit):
                    await undo.call()
            except OutcomeUnknown:
                if self._world.now() < limit:
                    continue
                return False
            except FencelockError:
                return False
            self._confirm(owner, undo)
            return True
        return False

    def _confirm(self, owner: str, undo: _Undo) -> None:
        undo.is_confirmed = True
        if undo.on_confirmed is not None:
            undo.on_confirmed()
        if undo.echoes:
            undo.echoes, undo.due = False, self._world.now() + ECHO_S
        else:
            self._undos.pop(owner, None)

    def _start(self) -> None:
        with self._mutex:
            if self._job is not None or self._stopped:
                self._wake.set()
                return
            self._idle.clear()
            try:
                self._job = self._world.keep(self._run, "fencelock-pending")
            except RuntimeError as error:  # no thread left, or the loop is closed
                observe.warn(f"what could not be undone is not tried again yet: {error!r}")

    async def _run(self) -> None:
        pause = policy.RETRY_MIN_S
        while self._goes_on():
            pause = policy.RETRY_MIN_S if await self._pass() else min(2 * pause, PASS_S)
            if undos := list(self._undos.values()):
                soonest = min(undo.due for undo in undos)
                await self._world.wait(self._wake, max(soonest, self._world.now() + pause))
                self._wake.clear()

    def _goes_on(self) -> bool:
        with self._mutex:
            foreign = self._world.generation() != self._generation  # a fork under green threads
            if self._stopped or foreign or not self._undos:
                self._job = None
                self._idle.set()
                return False
            return True

    async def _pass(self) -> bool:
        """Try each undo whose time has come, until one is not confirmed: then return False."""
        for owner, undo in snapshot(self._undos):
            if undo.tried_by() is not None or self._stopped or undo.due > self._world.now():
                continue
            mine = _Try()
            undo.tried_by = weakref.ref(mine)
            try:
                if not await self._try(owner, undo, self._world.now() + PASS_S):
                    return False
            except Exception as error:  # a defect of the engine: the others are owed all the same
                observe.warn(f"{undo.owed.what} of {undo.owed.name!r} failed: {error!r}")
                return False
            finally:
                del mine
        return True


async def unwatch(engine: Engine, request: Request) -> None:
    """End a watch. If that fails, the connection that would tell of a push is gone."""
    try:
        await engine.unwatch(request)
    except FencelockError:
        pass


def unconfirmed(request: Request, why: object) -> OutcomeUnknown:
    """Make the error of an attempt that could not be taken back in time."""
    return OutcomeUnknown(
        f"the engine has not confirmed that the request for {request.name!r} was taken back "
        f"({why}): it may still be granted, without a holder. Taking it back goes on in the "
        f"background (client.owed); else the lock frees itself within {request.ttl:g} s of that",
        until=request.ttl,
    )


def taken_back(request: Request, why: object) -> Unavailable:
    """Make the error of an attempt without a reply that was taken back."""
    return Unavailable(
        f"the engine did not answer the request for {request.name!r} ({why}); "
        "it was taken back and nothing is held. Try again"
    )


def is_definite(error: BaseException) -> bool:
    """Return whether an engine's error says that a retry would be of no use."""
    return isinstance(error, EngineError) and not isinstance(error, Unavailable)


def grace(world: World, limit: float) -> float:
    """Return the moment by which an undo at the end of a call has to be confirmed."""
    return min(limit, world.now() + GRACE_S)
