"""The report of a torture: text for people, plain values for programs."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .rulings import DEATH, DID_NOT_HOLD, rulings_of, updates, violated
from .run import Run

OUTCOMES = {
    "held": "passed",
    "broken": "violated",
    "not judged": "not applicable",
    "undecided": "undecided",
    DID_NOT_HOLD: "happened",
}
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


def rows(run: Run) -> list[Row]:
    """Return the verdict, one row for each ruling."""
    return [
        Row(OUTCOMES[ruling.outcome], ruling.question, ruling.why)
        if ruling.checker != DEATH
        else Row(OUTCOMES[ruling.outcome], ruling.question, run.deaths[0])
        for ruling in rulings_of(run)
    ]


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
        outcome = OUTCOMES[violated(run)]
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
