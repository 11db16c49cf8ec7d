"""The verdict on a run: the result of every checker that applies, and why the others do not.

A checker of something that does not occur in a history, such as a semaphore, is not mentioned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from . import checkers
from .checkers import Undecided
from .checkers.tenures import kind_of
from .history import History, Violation
from .promises import Promises

Checker: TypeAlias = Callable[[History, Promises], list[Violation]]


class Ruling(NamedTuple):
    """The result of one checker."""

    checker: str
    question: str
    outcome: str
    """held, broken, not judged or undecided."""
    why: str = ""
    violations: tuple[Violation, ...] = ()


class Verdict(NamedTuple):
    """All rulings on one history."""

    rulings: tuple[Ruling, ...]

    @property
    def violations(self) -> list[Violation]:
        """The violations found by all checkers."""
        return [violation for ruling in self.rulings for violation in ruling.violations]

    @property
    def passed(self) -> bool:
        """Whether no violation was found. What was not judged or is undecided does not count."""
        return not self.violations

    def __str__(self) -> str:
        lines = [f"{r.outcome:>10}  {r.question}{r.why and f' ({r.why})'}" for r in self.rulings]
        return "\n".join([*lines, *(f"! {v.checker}: {v.message}" for v in self.violations)])


class _Rule(NamedTuple):
    checker: Checker
    question: str
    needs: str
    """The name of the promise without which it is not judged."""
    about: frozenset[str] = frozenset()
    """It applies only if one of these occurs in the history; if empty, always."""


LOCK, SEMAPHORE, RWLOCK, LEADER, RUN = "lock", "semaphore", "rwlock", "leader", "run"
SEVERAL, BARRIER, LATCH = "several", "barrier", "latch"
_VERBS = {"run": RUN, "meet": BARRIER, "await": LATCH, "count": LATCH}

RULES = (
    _Rule(checkers.one_holder, "never two holders", "exclusive", frozenset({LOCK})),
    _Rule(checkers.linearizable, "one order explains all answers", "exclusive", frozenset({LOCK})),
    _Rule(
        checkers.within_limit,
        "never more units of a semaphore than its limit",
        "exclusive",
        frozenset({SEMAPHORE}),
    ),
    _Rule(
        checkers.one_per_slot, "never two holders of one slot", "exclusive", frozenset({SEMAPHORE})
    ),
    _Rule(
        checkers.no_reader_beside_writer,
        "nobody reads or writes beside a writer",
        "exclusive",
        frozenset({RWLOCK}),
    ),
    _Rule(checkers.fences_grow, "fences strictly grow", "fence", frozenset({LOCK, RWLOCK})),
    _Rule(checkers.slot_fences_grow, "fences grow in each slot", "fence", frozenset({SEMAPHORE})),
    _Rule(
        checkers.one_leader,
        "one leader for each epoch, and epochs only grow",
        "fence",
        frozenset({LEADER}),
    ),
    _Rule(
        checkers.once_per_window,
        "work for one window, or under one key, is done once at the most",
        "once",
        frozenset({RUN}),
    ),
    _Rule(
        checkers.skipped_when_done,
        "work is skipped only where it was done or under way",
        "once",
        frozenset({RUN}),
    ),
    _Rule(
        checkers.all_or_none,
        "several locks are acquired all or none",
        "exclusive",
        frozenset({SEVERAL}),
    ),
    _Rule(
        checkers.no_deadlock,
        "nobody waits for several locks for ever",
        "woken_within",
        frozenset({SEVERAL}),
    ),
    _Rule(
        checkers.all_have_come,
        "nobody passes a barrier before all have come",
        "remembers",
        frozenset({BARRIER}),
    ),
    _Rule(
        checkers.none_left_at_a_barrier,
        "nobody is left at a barrier that others passed",
        "remembers",
        frozenset({BARRIER}),
    ),
    _Rule(
        checkers.counts_are_kept,
        "a latch opens when it was counted down, and not before",
        "remembers",
        frozenset({LATCH}),
    ),
    _Rule(
        checkers.none_left_at_a_latch,
        "nobody is left at a latch that was counted down",
        "remembers",
        frozenset({LATCH}),
    ),
    _Rule(checkers.no_lost_update, "no acknowledged update is lost", "guarded"),
    _Rule(checkers.nothing_stale, "no stale operation is accepted", "guarded"),
    _Rule(checkers.told_in_time, "a holder learns of its loss in time", "told_within"),
    _Rule(checkers.nobody_sleeps, "nobody waits beside a free lock", "woken_within"),
    _Rule(checkers.first_come_first_served, "first come, first served", "fifo"),
    _Rule(checkers.no_orphan, "nothing is left behind", "freed_within"),
    _Rule(checkers.ends_in_time, "no call outlasts its caller's deadline", "grace"),
    _Rule(checkers.no_false_word, "what is said not to have happened has not", "undone_within"),
)

NOT_JUDGED = {
    "exclusive": "exclusion is not promised",
    "fence": "fences are not promised",
    "guarded": "the resource is not guarded",
    "fifo": "order is not promised",
    "remembers": "what was remembered may be forgotten",
    "once": "what was done may be forgotten, or clocks are apart",
}


def verdict(history: History, promises: Promises) -> Verdict:
    """Judge a history by what was promised."""
    found = _found(history)
    applicable = [rule for rule in RULES if not rule.about or rule.about & found]
    return Verdict(tuple(_judge(rule, history, promises) for rule in applicable))


def _found(history: History) -> set[str]:
    """Return what occurs in a history; a mutex if nothing else does."""
    begun = [event for event in history if event.kind == "invoke"]
    found = {kind_of(event.role) for event in begun if event.verb == "acquire"}
    found |= {LEADER for event in begun if event.role == LEADER}
    found |= {SEVERAL for event in begun if event.verb == "acquire" and event.value is not None}
    found |= {_VERBS[event.verb] for event in begun if event.verb in _VERBS}
    return found or {LOCK}


def _judge(rule: _Rule, history: History, promises: Promises) -> Ruling:
    name, promised = rule.checker.__name__, promises._asdict()[rule.needs]
    if promised is None or promised is False:
        why = NOT_JUDGED.get(rule.needs, "no bound is given")
        return Ruling(name, rule.question, "not judged", why)
    try:
        found = rule.checker(history, promises)
    except Undecided as error:
        return Ruling(name, rule.question, "undecided", str(error))
    outcome = "broken" if found else "held"
    return Ruling(name, rule.question, outcome, "", tuple(found))
