"""The rulings on a torture: those on its history, and what only the run itself can tell.

No promise of another library is known to be broken, and its lost updates without a guard count.
What a silent engine keeps is undecided. A client that ends by itself counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..history import Event, Violation
from ..verdict import Ruling
from .counters import SharedCounter
from .run import Run
from .runner import ENDED

DEATH = "no_death"
LEFT = "nothing is left behind"  # a question that only the engine can answer in the end
DID_NOT_HOLD = "did not hold"  # of another library: it is reported, as no promise of that is known


class Updates(NamedTuple):
    """The results of the read-modify-writes on one kind of counter."""

    acknowledged: int
    lost: int
    refused: int


def updates(counters: Iterable[SharedCounter]) -> Updates:
    """Add up the results of some counters."""
    known = list(counters)
    return Updates(
        sum(counter.writes for counter in known),
        sum(counter.lost for counter in known),
        sum(counter.refused for counter in known),
    )


def rulings_of(run: Run) -> list[Ruling]:
    """Return the verdict, one ruling for each question."""
    found: list[Ruling] = []
    for ruling in run.verdict.rulings:
        if run.traits is None and ruling.checker == "no_lost_update":
            found.append(_lost(run, ruling))
        elif run.unheard and ruling.question == LEFT:
            why = f"the engine is silent: {run.unheard}"
            found.append(ruling._replace(outcome="undecided", why=why, violations=()))
        elif ruling.violations:
            found.append(ruling._replace(outcome=violated(run)))
        else:
            found.append(ruling)
    if run.deaths:
        found.append(_deaths(run))
    return found


def _lost(run: Run, ruling: Ruling) -> Ruling:
    """Judge a lock without a fence by the counter without a guard: it cannot use the other."""
    plain = updates(run.counters.plain.values())
    why = f"{plain.lost} of {plain.acknowledged}, and no fence to guard with"
    told = tuple(
        Violation(ruling.checker, f"{one.client} writes: {one.detail}", (), one.at)
        for one in run.counters.losses
    )
    return ruling._replace(outcome=violated(run) if told else "held", why=why, violations=told)


def _deaths(run: Run) -> Ruling:
    died: list[Event] = [one for one in run.history if one.verb == "crash" and one.detail == ENDED]
    told = tuple(
        Violation(DEATH, words, (), event.at)
        for words, event in zip(run.deaths, died, strict=False)
    )
    return Ruling(DEATH, "no client ends by itself", violated(run), "", told)


def violated(run: Run) -> str:
    """Return the outcome of a violation."""
    return "broken" if run.traits is not None else DID_NOT_HOLD
