"""Describe holders and waiters: host, process, thread or task and the caller's meta, as JSON."""

from __future__ import annotations

import json
import weakref
from collections.abc import Hashable
from typing import cast

from ..errors import AcquireTimeout
from ..model import Busy, Meta, Scalar, shown
from ..world import World
from .validation import META_BYTES_MAX

FACT_MAX = 200  # characters of the name of a thread, a task or a host
TEXTS_MAX = 256  # threads or tasks whose description is kept


class HolderMeta:
    """Describes the threads or tasks of one client."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._texts: dict[int, tuple[weakref.ref[Hashable], str]] = {}
        """Their texts, by id of the thread or task, which must not be kept alive: a task has a
        result."""

    def text(self, words: Meta, context: Meta | None = None) -> str:
        """Return the JSON text of the caller and its meta; leases without meta share one object.

        What a tracer adds is left out where it does not fit.
        """
        if context:
            text = json.dumps({**self._facts(), **context, **words})
            if len(text) <= META_BYTES_MAX:
                return text
        if words:
            text = json.dumps({**self._facts(), **words})
            return text if len(text) <= META_BYTES_MAX else json.dumps(words)  # it fits alone
        who = self._world.who()
        known = self._texts.get(id(who))
        if known is not None and known[0]() is who:
            return known[1]
        if len(self._texts) >= TEXTS_MAX:
            self._texts.clear()
        text = json.dumps(self._facts())
        self._texts[id(who)] = (weakref.ref(who), text)
        return text

    def _facts(self) -> dict[str, Scalar]:
        """Host, process and thread or task, whose names may be of any length."""
        facts = self._world.facts()
        return {k: v[:FACT_MAX] if isinstance(v, str) else v for k, v in facts.items()}


def read_meta(text: str) -> Meta:
    """Read the JSON text of a holder."""
    words: Meta = json.loads(text) if text else {}
    return words


def _format(holder: str) -> str:
    """Format a holder's meta for a message; another program may have written anything."""
    try:
        words: object = json.loads(holder or "{}")
    except ValueError:
        return holder[:META_BYTES_MAX]
    if not isinstance(words, dict):
        return holder[:META_BYTES_MAX]
    return ", ".join(f"{key} {value}" for key, value in cast("Meta", words).items())


def not_in_time(name: str, timeout: float | None, busy: Busy) -> AcquireTimeout:
    """Make the error that says who holds the lock, and what to do."""
    held_by = shown(_format(busy.holder))
    ahead = f", {busy.position} waiting before us" if busy.position else ""
    return AcquireTimeout(
        f"{name!r} was not acquired in {timeout or 0:.3g} s: held by "
        f"{held_by or 'another'}{ahead}. Nothing is held; wait longer, or ask holders() who has it",
        name=name,
        timeout=timeout,
    )
