"""Several locks at once for blocking programs; ``several_aio.py`` is the same for asyncio."""

from __future__ import annotations

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
    hold_of,
    is_any_lost,
    leave_all,
    release_all,
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
        answer = drive(acquire_all(core, self._specs, wait))
        if isinstance(answer, tuple):
            raise not_in_time(answer[0], wait, answer[1])
        return Leases(core, answer)

    def try_acquire(self, *, timeout: float | None = 0) -> Leases | None:
        """Return all leases, or None if one cannot be acquired in time (by default: at once)."""
        core: Core[Lease] = self._cores.here()
        answer = drive(acquire_all(core, self._specs, check_timeout(timeout)))
        return None if isinstance(answer, tuple) else Leases(core, answer)

    def __enter__(self) -> Leases:
        leases = self.acquire()
        try:
            self._blocks.enter(self._cores.here().world.who(), leases)
        except BaseException as error:  # of a signal handler: __exit__ will not be called
            self._blocks.remove(leases)
            leases.__exit__(type(error), error, None)
            raise
        return leases

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        leases = self._blocks.last(self._cores.here().world.who())
        try:
            leases.__exit__(kind, error, traceback)
        finally:
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
        stack = ExitStack()
        for lease in self.values():
            stack.push(lease)
        stack.callback(lambda: drive(leave_all(self.core, list(self.values()))))  # the first to run
        try:
            stack.__exit__(kind, error, traceback)
        except FencelockError:
            raise
        except BaseException:  # of a signal handler: nothing else will leave the others
            for lease in self.values():
                if not hold_of(lease).released:
                    self.core.lifecycle.release_later(hold_of(lease))
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
