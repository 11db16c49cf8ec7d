"""Decide when a waiter looks again, and when a failed request is retried."""

from __future__ import annotations

from collections.abc import Callable

from ..world import World, sleep

LOOK_MIN_S, LOOK_MAX_S = 0.05, 0.5  # between two looks of a waiter, longer the longer it waits
LOOKS_PER_TTL = 20


class PollBackoff:
    """Counts how often each waiter of one client has looked."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._looks: dict[str, int] = {}

    def begin(self, owner: str) -> None:
        """Note that this owner waits."""
        self._looks[owner] = 1

    def end(self, owner: str) -> None:
        """Forget an owner that waits no more."""
        self._looks.pop(owner, None)

    def pause(self, owner: str, ttl: float) -> float:
        """Return the seconds until an owner looks again at a lock with this ttl."""
        looks = self._looks.get(owner, 0)
        if looks:
            self._looks[owner] = looks + 1
        most = min(max(ttl / LOOKS_PER_TTL, LOOK_MIN_S), LOOK_MAX_S)
        return self.jittered(min(LOOK_MIN_S * 1.5 ** min(looks, 10), most))

    def jittered(self, seconds: float) -> float:
        """Return about as many seconds, so that waiters do not all look at once."""
        return seconds * (0.75 + self._random() / 2)


async def back_off(world: World, tried: int, least: float, most: float, until: float) -> bool:
    """Pause after ``tried`` tries, longer after more; return False if there is no time for it."""
    pause = min(least * 1.5 ** min(tried, 20), most) * (0.5 + world.random() / 2)
    if world.now() + pause >= until:
        return False
    await sleep(world, pause)
    return True
