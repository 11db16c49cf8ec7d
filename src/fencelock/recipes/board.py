"""Read and write what an engine remembers for a recipe, and wait until it changes.

All requests here may be repeated: a read changes nothing, what is remembered only grows, and a
hint is a hint. So a request without a reply is sent again, and nothing has to be withdrawn.
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

LOOK_S = 1.0  # between the slow looks that make up for a push that never came
OUTAGE_S = 30.0  # a waiter tolerates for this long that the engine cannot be reached


def demand_memory(cores: Cores, what: str) -> None:
    """Refuse a recipe on an engine that remembers nothing after a process is gone."""
    if not cores.traits.remembers:
        raise Unsupported(
            f"{cores.address.public} remembers nothing after a process is gone, and {what} was "
            "asked for: use sqlite, redis, postgresql, mysql or another engine whose traits say "
            "``remembers``"
        )


def check_count(value: object, what: str, highest: int) -> int:
    """Return a number of parties or counts, or raise an error that says what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= highest:
        raise UsageError(f"{what} must be an integer from 1 to {highest}, not {value!r:.80}")
    return value


class Board:
    """What all users of a recipe of one name share: remembered numbers, holders and hints.

    The kind of the recipe is a part of this name, except for elections: a latch and a barrier of
    one name have nothing to do with each other.
    """

    def __init__(self, cores: Cores, name: str) -> None:
        self._cores = cores
        self.name = check_name(name)

    @property
    def core(self) -> AnyCore:
        """The client core of the caller."""
        return self._cores.here()

    async def recall(self, limit: float = NO_LIMIT) -> Mapping[str, int]:
        """Return the numbers that are remembered for the name."""
        return await self._look(lambda engine: engine.recall(self.name), limit)

    async def inspect(self, limit: float = NO_LIMIT) -> State:
        """Return the holders and waiters of the name."""
        return await self._look(lambda engine: engine.inspect(self.name), limit)

    async def remember(
        self, item: str, number: int, keep: float, limit: float = NO_LIMIT, insist_s: float = 0.0
    ) -> None:
        """Have a number remembered; retry for ``insist_s`` while the engine cannot be reached."""
        world = self.core.world
        give_up, wait = world.now() + insist_s, policy.RETRY_MIN_S
        while True:
            try:
                return await self._request(
                    lambda engine: engine.remember(self.name, item, number, keep), limit
                )
            except (OutcomeUnknown, Unavailable):
                if world.now() + wait >= min(give_up, limit):
                    raise
            await sleep(world, wait)
            wait = min(wait * 2, policy.RETRY_MAX_S)

    async def forget(self) -> None:
        """Have all numbers of the name forgotten."""
        await self._request(lambda engine: engine.forget(self.name), NO_LIMIT)

    async def announce(self, limit: float = NO_LIMIT) -> None:
        """Send a hint to all observers of the name; a failure to send it is ignored."""
        core = self.core
        try:
            with core.world.until(min(core.world.now() + GRACE_S, limit)):
                await core.ready()
                await core.engine.announce(self.name)
        except FencelockError:
            pass  # observers also look without a hint

    async def _look(self, call: Callable[[Engine], Coroutine[Any, Any, T]], limit: float) -> T:
        try:
            return await self._request(call, limit)
        except OutcomeUnknown as error:
            raise Unavailable(
                f"the engine did not answer in time; nothing changed: {error}"
            ) from error

    async def _request(self, call: Callable[[Engine], Coroutine[Any, Any, T]], limit: float) -> T:
        """Send a request; if no reply comes, send it again, a few times."""
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
    """A waiter for changes of a board: woken by the engine, and to look now and then."""

    def __init__(self, board: Board, outage_s: float = OUTAGE_S) -> None:
        self.name = board.name
        self._core = board.core
        self._signal = self._core.world.signal()
        self._outage_s = outage_s
        self._failing_since: float | None = None
        self._engine: Engine | None = None

    async def begin(self, limit: float = NO_LIMIT) -> None:
        """Have the engine set the signal at every change from now on."""
        core = self._core
        with core.world.until(limit):
            await core.ready()
            await core.engine.observe(self.name, self._signal)
        self._engine = core.engine

    async def wait(self, until: float) -> None:
        """Wait for a change, but no longer than until the slow look or the given moment."""
        world = self._core.world
        with world.until(NO_LIMIT):
            await self._core.engine.wait(self._signal, min(until, world.now() + LOOK_S))
        self._signal.clear()

    def is_reached(self) -> None:
        """Note that the engine has answered: an outage is over."""
        self._failing_since = None

    def bear(self, error: Unavailable) -> None:
        """Raise the error if the engine has been out of reach for too long; tolerate less."""
        now = self._core.world.now()
        if self._failing_since is None:
            self._failing_since = now
        if now >= self._failing_since + self._outage_s:
            raise error

    async def end(self, limit: float = NO_LIMIT) -> None:
        """End the observation."""
        world = self._core.world
        if self._engine is None or self._engine is not self._core.engine:
            return  # never begun, or begun by the parent of this process
        try:
            with world.until(min(world.now() + GRACE_S, limit)):
                await self._engine.unobserve(self.name, self._signal)
        except FencelockError:
            pass  # at worst, a signal without a waiter is set until the client is closed
        self._engine = None
