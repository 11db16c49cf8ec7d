"""Words about who holds and who waits: made once, carried as JSON text, shown to whoever asks."""

from __future__ import annotations

import json
from collections.abc import Hashable

from ..checks import check_meta_size
from ..errors import AcquireTimeout
from ..model import Busy, Meta
from ..world import World

TEXTS_MAX = 256  # threads or tasks whose description is kept


class About:
    """Describes the threads or tasks of one client."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._texts: dict[Hashable, str] = {}

    def text(self, words: Meta) -> str:
        """Who asks, with their own words; one object for all leases that add none."""
        if words:
            return check_meta_size(json.dumps({**self._world.facts(), **words}))
        who = self._world.who()
        text = self._texts.get(who)
        if text is None:
            if len(self._texts) >= TEXTS_MAX:
                self._texts.clear()
            text = self._texts[who] = json.dumps(self._world.facts())
        return text


def read_meta(text: str) -> Meta:
    """What was said about a holder."""
    words: Meta = json.loads(text) if text else {}
    return words


def not_in_time(name: str, timeout: float | None, busy: Busy) -> AcquireTimeout:
    """Why a lock was not had, and what to do."""
    held_by = ", ".join(f"{key} {value}" for key, value in read_meta(busy.holder).items())
    ahead = f", {busy.position} waiting before us" if busy.position else ""
    return AcquireTimeout(
        f"{name!r} was not acquired in {timeout or 0:.3g} s: held by "
        f"{held_by or 'another'}{ahead}. Nothing is held; wait longer, or ask holders() who has it",
        name=name,
        timeout=timeout,
    )
