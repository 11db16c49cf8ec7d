"""Read and write what an engine remembers for a recipe, and wait until it changes.

All requests here may be repeated: looking changes nothing, what is remembered only grows, and a
hint is a hint. So no answer is answered by asking again, and nothing is left to be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .._client import policy
from .._client.facade import Cores
from .._client.validation import check_name
from ..engine import Engine
from ..errors import FencelockError, OutcomeUnknown, Unavailable, Unsupported, UsageError
from ..model import State
from ..world import GRACE_S, NO_LIMIT, sleep

if TYPE_CHECKING:
    from .._client.facade import AnyCore

T = TypeVar("T")

LOOK_S = 1.0  # the slow look that makes up for a push that never came
OUTAGE_S = 30.0  # whoever waits bears an engine that cannot be reached for this long


def demand_memory(cores: Cores, what: str) -> None:
    """Refuse a recipe on an engine that forgets what was done once a process is gone."""
    if not cores.traits.remembers:
        raise Unsupported(
            f"{cores.address.public} remembers nothing after a process is gone, and {what} was "
            "asked for: use sqlite, redis, postgresql, mysql or another engine whose traits say "
            "``remembers``"
        )


def check_count(value: object, what: str, highest: int) -> int:
    """Return a number of parties, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= highest:
        raise UsageError(f"{what} must be an integer from 1 to {highest}, not {value!r:.80}")
    return value


class Board:
    """What all who use a recipe of one name can write down, read and be told of.

    The kind of the recipe is a part of its name there: a latch and a barrier of one name have
    nothing to do with each other.
    """

    def __init__(self, cores: Cores, name: str) -> None:
        self._cores = cores
        self.name = check_name(name)

    @property
    def core(self) -> AnyCore:
        """The core of whoever calls."""
        return self._cores.here()

    async def recall(self, limit: float = NO_LIMIT) -> Mapping[str, int]:
        """What is remembered."""
        return await self._look(lambda engine: engine.recall(self.name), limit)

    async def inspect(self, limit: float = NO_LIMIT) -> State:
        """Who holds the name."""
        return await self._look(lambda engine: engine.inspect(self.name), limit)

    async def remember(
        self, item: str, number: int, keep: float, limit: float = NO_LIMIT, insist_s: float = 0.0
    ) -> None:
        """Write a number down; try again for a while where the engine cannot be reached."""
        world = self.core.world
        give_up, wait = world.now() + insist_s, policy.RETRY_MIN_S
        while True:
            try:
                return await self._ask(
                    lambda engine: engine.remember(self.name, item, number, keep), limit
                )
            except (OutcomeUnknown, Unavailable):
                if world.now() + wait >= min(give_up, limit):
                    raise
            await sleep(world, wait)
            wait = min(wait * 2, policy.RETRY_MAX_S)

    async def forget(self) -> None:
        """Remember nothing any more."""
        await self._ask(lambda engine: engine.forget(self.name), NO_LIMIT)

    async def announce(self, limit: float = NO_LIMIT) -> None:
        """Tell all who observe the name. A hint: that it cannot be sent is no trouble."""
        core = self.core
        try:
            with core.world.until(min(core.world.now() + GRACE_S, limit)):
                await core.ready()
                await core.engine.announce(self.name)
        except FencelockError:
            pass  # they look by themselves

    async def _look(self, call: Callable[[Engine], Coroutine[Any, Any, T]], limit: float) -> T:
        try:
            return await self._ask(call, limit)
        except OutcomeUnknown as error:
            raise Unavailable(
                f"the engine was not heard in time; nothing changed: {error}"
            ) from error

    async def _ask(self, call: Callable[[Engine], Coroutine[Any, Any, T]], limit: float) -> T:
        """Send a request, and again when no answer came, a few times."""
        core, tries = self.core, 1
        while True:
            try:
                with core.world.until(limit):
                    await core.ready()
                    return await call(core.engine)
            except OutcomeUnknown:
                if tries == policy.UNKNOWN_TRIES or core.world.now() >= limit:
                    raise
            await sleep(core.world, min(policy.RETRY_MIN_S * tries, limit - core.world.now()))
            tries += 1


class Observer:
    """One who waits for a change of a board: told by the engine, and looking now and then."""

    def __init__(self, board: Board, outage_s: float = OUTAGE_S) -> None:
        self.name = board.name
        self._core = board.core
        self._signal = self._core.world.signal()
        self._outage_s = outage_s
        self._failing_since: float | None = None
        self._engine: Engine | None = None

    async def begin(self, limit: float = NO_LIMIT) -> None:
        """Have the signal set from now on."""
        core = self._core
        with core.world.until(limit):
            await core.ready()
            await core.engine.observe(self.name, self._signal)
        self._engine = core.engine

    async def wait(self, until: float) -> None:
        """Wait for a change, and no longer than the slow look or a moment."""
        world = self._core.world
        with world.until(NO_LIMIT):
            await self._core.engine.wait(self._signal, min(until, world.now() + LOOK_S))
        self._signal.clear()

    def is_reached(self) -> None:
        """The engine has answered."""
        self._failing_since = None

    def bear(self, error: Unavailable) -> None:
        """Raise if the engine cannot be reached for too long: a short outage costs nothing."""
        now = self._core.world.now()
        if self._failing_since is None:
            self._failing_since = now
        if now >= self._failing_since + self._outage_s:
            raise error

    async def end(self, limit: float = NO_LIMIT) -> None:
        """Be told no more."""
        world = self._core.world
        if self._engine is None or self._engine is not self._core.engine:
            return  # never begun, or by the parent of this process
        try:
            with world.until(min(world.now() + GRACE_S, limit)):
                await self._engine.unobserve(self.name, self._signal)
        except FencelockError:
            pass  # the signal of nobody is set, at worst until the client is closed
        self._engine = None
