"""Several locks at once for blocking programs; ``several_aio.py`` is the same for asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from .._client.holder_meta import not_in_time
from .._client.validation import check_timeout
from ..errors import FencelockError
from ..worlds.threads import drive
from .several import (
    LeasesBase,
    LocksBase,
    acquire_all,
    entered_before,
    is_any_lost,
    leave_all,
    leave_later,
    levels_of,
    release_all,
    restore,
    wait_any_lost,
)

if TYPE_CHECKING:
    from .._client.client import Core
    from ..sync import Lease


class Locks(LocksBase["Leases"]):
    """A description of several locks. It holds no lease, and can be used again and again."""

    def acquire(self, *, timeout: float | Literal["default"] | None = "default") -> Leases:
        """Wait for all locks and return their leases, or raise AcquireTimeout and hold none."""
        wait = self._specs[0].timeout if timeout == "default" else check_timeout(timeout)
        core: Core[Lease] = self._cores.here()
        entered = entered_before(core, self._specs)
        try:
            answer = drive(acquire_all(core, self._specs, wait))
            if isinstance(answer, tuple):
                raise not_in_time(answer[0], wait, answer[1])
            return Leases(core, answer)
        except BaseException:
            restore(entered)
            raise

    def try_acquire(self, *, timeout: float | None = 0) -> Leases | None:
        """Return all leases, or None if one cannot be acquired in time (by default: at once)."""
        core: Core[Lease] = self._cores.here()
        entered = entered_before(core, self._specs)
        try:
            answer = drive(acquire_all(core, self._specs, check_timeout(timeout)))
            return None if isinstance(answer, tuple) else Leases(core, answer)
        except BaseException:
            restore(entered)
            raise

    def __enter__(self) -> Leases:
        entered, leases = entered_before(self._cores.here(), self._specs), None
        try:
            leases = self.acquire()
            self._blocks.enter(self._cores.here().world.who(), leases)
            return leases
        except BaseException as error:  # of a signal handler: __exit__ will not be called
            try:
                if leases is not None:
                    self._blocks.remove(leases)
                    leases.__exit__(type(error), error, None)
            finally:
                restore(entered)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        leases: Leases | None = None
        levels: Sequence[int] = ()
        try:
            leases = self._blocks.last(self._cores.here().world.who())
            levels = levels_of(leases)
            leases.__exit__(kind, error, traceback)
        except FencelockError:
            raise
        except BaseException:  # of a signal handler: nothing else will leave them
            if leases is None:
                leases = self._blocks.last(self._cores.here().world.who())
            leave_later(leases, levels or levels_of(leases), error)
            raise
        finally:
            if leases is not None:
                self._blocks.remove(leases)


class Leases(LeasesBase["Lease"]):
    """The leases of several locks, by name: all hold, or their holder learns of a loss.

    Leaving it releases all. It is true while all hold.
    """

    @property
    def lost(self) -> AnyLost:
        """The loss of any of them, to be checked or waited for."""
        return AnyLost(self)

    def release(self) -> bool:
        """Release all locks; True when this freed them, False when one was no longer ours."""
        return drive(release_all(self.core, list(self.values())))

    def __enter__(self) -> Leases:
        self.check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        levels: Sequence[int] = ()
        try:
            levels = levels_of(self)
            stack = ExitStack()
            for lease in self.values():
                stack.push(lease)
            stack.callback(lambda: drive(leave_all(self.core, list(self.values()))))  # runs first
            stack.__exit__(kind, error, traceback)
        except FencelockError:
            raise
        except BaseException:  # of a signal handler: nothing else will leave the others
            leave_later(self, levels or levels_of(self), error)
            raise


class AnyLost:
    """The loss of any of several leases, to be checked or waited for. True once one is lost."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    def is_set(self) -> bool:
        """Return whether a lease is lost, judged by our own clock even if no reply has said so."""
        return is_any_lost(self._leases)

    def __bool__(self) -> bool:
        return self.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a loss; False when time is up or all were released."""
        return drive(wait_any_lost(self._leases, check_timeout(timeout)))
