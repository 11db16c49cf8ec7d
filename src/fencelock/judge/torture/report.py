"""The report of a torture: text for people, plain values for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from .counters import SharedCounter
from .run import Run

LEFT = "nothing is left behind"  # a question that only the engine can answer in the end
OUTCOMES = {
    "held": "passed",
    "broken": "violated",
    "not judged": "not applicable",
    "undecided": "undecided",
}
HAPPENED = "happened"  # to another library: it is reported, as no promise of that is known
SHOWN = 3  # violations of one checker that are reported as text
_COUNTED = {
    "pause": ("pause", "pauses"),
    "kill": ("kill", "kills"),
    "lose": ("lost answer", "lost answers"),
    "partition": ("partition", "partitions"),
}


class Row(NamedTuple):
    """One row of the verdict."""

    outcome: str
    """passed, violated (by others: happened), not applicable or undecided."""
    question: str
    why: str


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


def rows(run: Run) -> list[Row]:
    """Return the verdict, one row for each checker.

    A lock without a fence is judged by the counter without a guard: it cannot use the other.
    """
    found = [
        Row(outcome_of(run, ruling.outcome), ruling.question, ruling.why)
        for ruling in run.verdict.rulings
        if run.traits is not None or ruling.checker != "no_lost_update"
    ]
    if run.traits is None:
        plain = updates(run.counters.plain.values())
        why = f"{plain.lost} of {plain.acknowledged}, and no fence to guard with"
        outcome = HAPPENED if plain.lost else "passed"
        found.insert(2, Row(outcome, "no acknowledged update is lost", why))
    if run.unheard:
        why = f"the engine is silent: {run.unheard}"
        found = [row if row.question != LEFT else Row("undecided", LEFT, why) for row in found]
    if run.deaths:
        found.append(Row(outcome_of(run, "broken"), "no client ends by itself", run.deaths[0]))
    return found


def outcome_of(run: Run, ruled: str) -> str:
    """Return a ruling in the terms of a report. Only the promises of fencelock are known."""
    return HAPPENED if run.traits is None and ruled == "broken" else OUTCOMES[ruled]


def conclusion(run: Run) -> str:
    """Return the verdict in one sentence."""
    if run.traits is None:
        plain = updates(run.counters.plain.values())
        others = len(run.verdict.violations) + len(run.deaths)
        more = f", and {others} more that should not happen did" if others else ""
        told = f"{plain.lost} of {plain.acknowledged} updates were lost{more}"
    else:
        told = "every promise that was judged held" if run.passed else "a promise was broken"
    if not sum(run.faults.values()):
        told += ", but no fault came in this time: it shows nothing"
    return f"{told}, and in the end the engine was silent" if run.unheard else told


def facts(run: Run) -> dict[str, object]:
    """Return the run as plain values."""
    settings = run.settings
    outcomes = Counter(f"{o.verb} {o.outcome}" for o in run.history.operations())
    return {
        "library": settings.library,
        "url": run.url,
        "lock": settings.lock,
        "seconds": settings.seconds,
        "clients": settings.clients,
        "ttl_s": settings.ttl,
        "kept_s": round(run.ttl, 3),
        "seed": settings.seed,
        "passed": run.passed,
        "tenures": run.tenures,
        "operations": dict(sorted(outcomes.items())),
        "faults": {fault: run.faults.get(fault, 0) for fault in settings.faults},
        "not_applicable": run.not_applicable,
        "remark": run.remark,
        "unheard": run.unheard,
        "unguarded": updates(run.counters.plain.values())._asdict(),
        "guarded": updates(run.counters.guarded.values())._asdict() if run.traits else None,
        "verdict": [row._asdict() for row in rows(run)],
        "violations": [
            {"checker": one.checker, "message": one.message} for one in run.verdict.violations
        ],
        "deaths": run.deaths,
    }


def words(run: Run) -> list[tuple[str, str]]:
    """Return the run as lines of text, each with the outcome that it reports, or an empty one."""
    settings = run.settings
    told = f"{settings.seconds:g} s, {settings.clients} clients, ttl {settings.ttl:g} s"
    lines = [
        ("", f"{settings.library} over {run.url}{_what(run)}"),
        ("", f"  {told}, seed {settings.seed}: {run.tenures} tenures"),
        ("", f"  faults: {faults(run)}"),
    ]
    if run.remark:
        lines.append(("", f"  {run.remark}"))
    width = max(len(outcome) for outcome in OUTCOMES.values())
    for row in rows(run):
        why = f" ({row.why})" if row.why else ""
        lines.append((row.outcome, f"  {row.outcome:<{width}}  {row.question}{why}"))
    for checker, messages in _violations(run).items():
        more = len(messages) - SHOWN
        outcome = outcome_of(run, "broken")
        lines += [(outcome, f"    {checker}: {message}") for message in messages[:SHOWN]]
        lines += [(outcome, f"    {checker}: and {more} more")] if more > 0 else []
    return [*lines, *(("", f"  {line}") for line in updates_in_words(run))]


def _what(run: Run) -> str:
    return f", {run.settings.lock}" if run.settings.semaphore or run.settings.rw else ""


def faults(run: Run) -> str:
    """Return how often each fault happened, as text."""
    said: list[str] = []
    for fault in run.settings.faults:
        one, many = _COUNTED[fault]
        if fault in run.not_applicable:
            said.append(f"{many} not applicable ({run.not_applicable[fault]})")
        else:
            count = run.faults.get(fault, 0)
            said.append(f"{count} {one if count == 1 else many}")
    return ", ".join(said)


def _violations(run: Run) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for violation in run.verdict.violations:
        found.setdefault(violation.checker, []).append(violation.message)
    return found


def updates_in_words(run: Run) -> list[str]:
    """Return the results of both kinds of counters, as text."""
    plain = updates(run.counters.plain.values())
    share = 100 * plain.lost / plain.acknowledged if plain.acknowledged else 0.0
    without = (
        f"{plain.acknowledged} updates acknowledged, {plain.lost} of them lost ({share:.1f} %)"
    )
    if run.traits is None:
        guard = "not applicable, this library has no fence that one could check"
    else:
        guarded = updates(run.counters.guarded.values())
        guard = (
            f"{guarded.acknowledged} updates acknowledged, {guarded.lost} of them lost, "
            f"{guarded.refused} stale operations refused"
        )
    return [f"without a guard: {without}", f"with a guard: {guard}"]
