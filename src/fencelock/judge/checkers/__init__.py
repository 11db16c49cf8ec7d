"""Checkers: pure functions from a history, and what was promised, to the violations in it.

Each is sound: what it reports did break a promise, if the history is true. None of them needs to
know an engine.
"""

from __future__ import annotations

from .barriers import (
    all_have_come,
    counts_are_kept,
    none_left_at_a_barrier,
    none_left_at_a_latch,
)
from .calls import ends_in_time, no_false_word
from .holding import (
    fences_grow,
    no_reader_beside_writer,
    one_holder,
    one_per_slot,
    slot_fences_grow,
    told_in_time,
    within_limit,
)
from .linear import Undecided, linearizable
from .recipes import once_per_window, one_leader, skipped_when_done
from .register import no_lost_update, nothing_stale
from .several import all_or_none, no_deadlock
from .waiting import first_come_first_served, no_orphan, nobody_sleeps

__all__ = [
    "Undecided",
    "all_have_come",
    "all_or_none",
    "counts_are_kept",
    "ends_in_time",
    "fences_grow",
    "first_come_first_served",
    "linearizable",
    "no_deadlock",
    "no_false_word",
    "no_lost_update",
    "no_orphan",
    "no_reader_beside_writer",
    "nobody_sleeps",
    "none_left_at_a_barrier",
    "none_left_at_a_latch",
    "nothing_stale",
    "once_per_window",
    "one_holder",
    "one_leader",
    "one_per_slot",
    "skipped_when_done",
    "slot_fences_grow",
    "told_in_time",
    "within_limit",
]
