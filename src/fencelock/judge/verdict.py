"""Judge a run: apply every checker that applies, and say why the others do not.

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
    """What became of one checker."""

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
        """All that was found."""
        return [violation for ruling in self.rulings for violation in ruling.violations]

    @property
    def passed(self) -> bool:
        """Nothing was found. What was not judged or undecided does not count."""
        return not self.violations

    def __str__(self) -> str:
        lines = [f"{r.outcome:>10}  {r.question}{r.why and f' ({r.why})'}" for r in self.rulings]
        return "\n".join([*lines, *(f"! {v.checker}: {v.message}" for v in self.violations)])


class _Article(NamedTuple):
    checker: Checker
    question: str
    needs: str
    """The promise without which it is not judged."""
    about: frozenset[str] = frozenset()
    """What must occur in a history for this to be asked; nothing for what is always asked."""


LOCK, SEMAPHORE, RWLOCK, LEADER, RUN = "lock", "semaphore", "rwlock", "leader", "run"
SEVERAL, BARRIER, LATCH = "several", "barrier", "latch"
_VERBS = {"run": RUN, "meet": BARRIER, "await": LATCH, "count": LATCH}

ARTICLES = (
    _Article(checkers.one_holder, "never two holders", "exclusive", frozenset({LOCK})),
    _Article(
        checkers.linearizable, "one order explains all answers", "exclusive", frozenset({LOCK})
    ),
    _Article(
        checkers.within_limit,
        "never more units of a semaphore than its limit",
        "exclusive",
        frozenset({SEMAPHORE}),
    ),
    _Article(
        checkers.one_per_slot, "never two holders of one slot", "exclusive", frozenset({SEMAPHORE})
    ),
    _Article(
        checkers.no_reader_beside_writer,
        "nobody reads or writes beside a writer",
        "exclusive",
        frozenset({RWLOCK}),
    ),
    _Article(checkers.fences_grow, "fences strictly grow", "fence", frozenset({LOCK, RWLOCK})),
    _Article(
        checkers.slot_fences_grow, "fences grow in each slot", "fence", frozenset({SEMAPHORE})
    ),
    _Article(
        checkers.one_leader,
        "one leader for each epoch, and epochs only grow",
        "fence",
        frozenset({LEADER}),
    ),
    _Article(
        checkers.once_per_window,
        "work for one window, or under one key, is done once at the most",
        "once",
        frozenset({RUN}),
    ),
    _Article(
        checkers.skipped_when_done,
        "work is skipped only where it was done or under way",
        "once",
        frozenset({RUN}),
    ),
    _Article(
        checkers.all_or_none,
        "several locks are acquired all or none",
        "exclusive",
        frozenset({SEVERAL}),
    ),
    _Article(
        checkers.no_deadlock,
        "nobody waits for several locks for ever",
        "woken_within",
        frozenset({SEVERAL}),
    ),
    _Article(
        checkers.all_have_come,
        "nobody passes a barrier before all have come",
        "remembers",
        frozenset({BARRIER}),
    ),
    _Article(
        checkers.none_left_at_a_barrier,
        "nobody is left at a barrier that others passed",
        "remembers",
        frozenset({BARRIER}),
    ),
    _Article(
        checkers.counts_are_kept,
        "a latch opens when it was counted down, and not before",
        "remembers",
        frozenset({LATCH}),
    ),
    _Article(
        checkers.none_left_at_a_latch,
        "nobody is left at a latch that was counted down",
        "remembers",
        frozenset({LATCH}),
    ),
    _Article(checkers.no_lost_update, "no acknowledged update is lost", "guarded"),
    _Article(checkers.nothing_stale, "no stale operation is accepted", "guarded"),
    _Article(checkers.told_in_time, "a holder learns of its loss in time", "told_within"),
    _Article(checkers.nobody_sleeps, "nobody waits beside a free lock", "woken_within"),
    _Article(checkers.first_come_first_served, "first come, first served", "fifo"),
    _Article(checkers.no_orphan, "nothing is left behind", "freed_within"),
    _Article(checkers.ends_in_time, "no call outlasts its caller's deadline", "grace"),
    _Article(checkers.no_false_word, "what is said not to have happened has not", "undone_within"),
)

EXCUSES = {
    "exclusive": "exclusion is not promised",
    "fence": "fences are not promised",
    "guarded": "the resource is not guarded",
    "fifo": "order is not promised",
    "remembers": "what was remembered may be forgotten",
    "once": "what was done may be forgotten, or clocks are apart",
}


def verdict(history: History, promises: Promises) -> Verdict:
    """Hold a history to what was promised."""
    found = _found(history)
    asked = [article for article in ARTICLES if not article.about or article.about & found]
    return Verdict(tuple(_rule(article, history, promises) for article in asked))


def _found(history: History) -> set[str]:
    """What occurs in a history; a mutex, where nothing else does."""
    begun = [event for event in history if event.kind == "invoke"]
    found = {kind_of(event.role) for event in begun if event.verb == "acquire"}
    found |= {LEADER for event in begun if event.role == LEADER}
    found |= {SEVERAL for event in begun if event.verb == "acquire" and event.value is not None}
    found |= {_VERBS[event.verb] for event in begun if event.verb in _VERBS}
    return found or {LOCK}


def _rule(article: _Article, history: History, promises: Promises) -> Ruling:
    name, promised = article.checker.__name__, promises._asdict()[article.needs]
    if promised is None or promised is False:
        excuse = EXCUSES.get(article.needs, "no bound is given")
        return Ruling(name, article.question, "not judged", excuse)
    try:
        found = article.checker(history, promises)
    except Undecided as error:
        return Ruling(name, article.question, "undecided", str(error))
    outcome = "broken" if found else "held"
    return Ruling(name, article.question, outcome, "", tuple(found))
