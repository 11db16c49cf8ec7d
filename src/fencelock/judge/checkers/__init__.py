"""Checkers: pure functions from a history, and what was promised, to the violations in it.

Each is sound: what it reports did break a promise, if the history is true. None of them needs to
know an engine.
"""

from __future__ import annotations

from .calls import ends_in_time, no_false_word
from .holding import fences_grow, one_holder, told_in_time
from .linear import Undecided, linearizable
from .register import no_lost_update, nothing_stale
from .waiting import first_come_first_served, no_orphan, nobody_sleeps

__all__ = [
    "Undecided",
    "ends_in_time",
    "fences_grow",
    "first_come_first_served",
    "linearizable",
    "no_false_word",
    "no_lost_update",
    "no_orphan",
    "nobody_sleeps",
    "nothing_stale",
    "one_holder",
    "told_in_time",
]
