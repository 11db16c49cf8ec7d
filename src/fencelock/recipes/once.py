"""Do work once in every window of time, by one of many machines.

A window has a number: the wall clock of the machine, divided by the length of a window. It is the
machine's own clock and not the engine's, because that is what starts the work: cron, a timer, a
loop that sleeps until the next full five minutes. The number of the last window whose work was done
is remembered, and written while the lock of that name is held.

* **None is done twice.** A runner that works in window W holds the lock and has seen a number
  below W; after the work it writes W before it releases. The number only grows, so that W and all
  before it are over for everybody, however far clocks are apart, for as long as it is kept.
* **None is left out**, if clocks are apart by less than a window. The first machine whose clock
  strikes W finds a number below W: to have more, somebody's clock must have struck W + 1 while
  nobody's had struck W.
* A number is kept for ``KEEP`` windows on the engine's clock. Say one machine struck W and was done
  at once. The clock of another strikes W less than a window later, and ends W less than two windows
  later. It looks at the number within one more, or gives the window up: so it sees the number. A
  machine whose clock is far ahead makes the others skip for no longer than that.
* Windows of different lengths have nothing to do with each other: their numbers cannot be compared,
  and each length has a number of its own. A job whose schedule is changed runs by the new one.
* **At least once on a crash**: the lock of a runner that is gone is free after its ttl, and one of
  those who wait for it works instead. Whether the first had done all of its work nobody knows.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from .._client.facade import Cores
from .._client.hold_state import HasHold
from .._client.lock_options import LockSpec
from .._client.policy import RELEASE_S
from .._client.validation import check_seconds
from ..errors import OutcomeUnknown, Unavailable
from ..model import Busy
from ..world import GRACE_S, NO_LIMIT
from .board import Board, demand_memory

EVERY_MIN_S, EVERY_MAX_S = 1.0, 366 * 86_400.0
KEEP = 3
WINDOW = "window"

L = TypeVar("L", bound=HasHold)


class Window(NamedTuple):
    """The window in which work was requested, on the clocks of this machine."""

    number: int
    ends_at: float
    over_at: float
    """Until then, one more window, the number that is remembered is proof."""


class Turn(Generic[L]):
    """One entered block: the lease under which to work, or None if the window is to be skipped."""

    def __init__(self, window: Window, lease: L | None = None) -> None:
        self.window = window
        self.lease = lease


def check_every(every: object, what: str = "every") -> float:
    """Return the length of a window in seconds, or raise an error that says what is wrong."""
    return check_seconds(every, what, EVERY_MIN_S, EVERY_MAX_S)


class Schedule:
    """The windows of one name."""

    def __init__(self, cores: Cores, spec: LockSpec, every: object) -> None:
        self._cores = cores
        self._spec = spec
        self.every = check_every(every)
        self._board = Board(cores, f"once:{spec.name}")
        self._item = f"{WINDOW}:{self.every!r}"
        demand_memory(cores, "work that is done once per window")

    def window(self) -> Window:
        """Return the present window."""
        world = self._cores.here().world
        wall, now = world.wall_us() / 1e6, world.now()
        number = int(wall // self.every)
        ends_at = now + (number + 1) * self.every - wall
        return Window(number, ends_at, ends_at + self.every)

    def left(self, window: Window) -> float:
        """Return the seconds until a window ends."""
        return max(0.0, window.ends_at - self._cores.here().world.now())

    async def is_done(self, window: Window, limit: float = NO_LIMIT) -> bool:
        """Return whether the work of a window, or of a later one of that length, was done."""
        done = (await self._board.recall(limit)).get(self._item)
        return done is not None and done >= window.number

    async def begin(self) -> Turn[Any]:
        """Acquire the lock for the work of the present window, unless that is done."""
        core, window = self._cores.here(), self.window()
        now, timeout = core.world.now(), self._spec.timeout
        deadline = window.ends_at if timeout is None else min(now + timeout, window.ends_at)
        limit = max(deadline, now) + GRACE_S
        if await self.is_done(window, limit):
            return Turn(window)
        answer = await core.attempt(self._spec, max(0.0, deadline - core.world.now()))
        if isinstance(answer, Busy):
            return Turn(window)
        hold = answer._hold
        try:
            skip = not await self.is_due(window, core.world.now() + GRACE_S)
        except BaseException as error:
            await core.lifecycle.leave(hold, error)
            raise
        if skip:
            await core.lifecycle.leave(hold, None)
            return Turn(window)
        return Turn(window, answer)

    async def is_due(self, window: Window, limit: float = NO_LIMIT) -> bool:
        """Return whether the work is still to be done; only the holder of the lock can tell."""
        done = await self.is_done(window, limit)
        return not done and self._cores.here().world.now() < window.over_at

    async def end(self, turn: Turn[L], error: BaseException | None) -> None:
        """Record that the work was done, if it was; the lock is still held."""
        core = self._cores.here()
        if turn.lease is None or error is not None:
            return
        if core.lifecycle.loss(turn.lease._hold) is None:  # pyright: ignore[reportPrivateUsage]
            await core.world.shield(self.remember(turn.window))

    async def remember(self, window: Window) -> None:
        """Record that the work of a window was done, so that nobody does it again."""
        try:
            keep = KEEP * self.every
            await self._board.remember(self._item, window.number, keep, insist_s=RELEASE_S)
        except (OutcomeUnknown, Unavailable) as error:
            raise OutcomeUnknown(
                f"the work of {self._spec.name!r} in this window has ended well, but that could "
                f"not be written down, and another may do it again: {error}"
            ) from error
