"""Words about who holds and who waits: made once, carried as JSON text, shown to whoever asks."""

from __future__ import annotations

import json
import weakref
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
        self._texts: dict[int, tuple[weakref.ref[Hashable], str]] = {}
        """By the id of the thread or task, which must not be kept alive: a task has a result."""

    def text(self, words: Meta) -> str:
        """Who asks, with their own words; one object for all leases that add none."""
        if words:
            return check_meta_size(json.dumps({**self._world.facts(), **words}))
        who = self._world.who()
        known = self._texts.get(id(who))
        if known is not None and known[0]() is who:
            return known[1]
        if len(self._texts) >= TEXTS_MAX:
            self._texts.clear()
        text = json.dumps(self._world.facts())
        self._texts[id(who)] = (weakref.ref(who), text)
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
