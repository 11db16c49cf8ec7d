"""The report of a torture for its page: its history as parts, and when and how it was run."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from .. import __version__
from ..judge import Event, Ruling, Violation
from ..judge.torture.peers import OURS, name_on_index
from ..judge.torture.report import LEFT, conclusion, faults, updates, updates_in_words
from ..judge.torture.run import Run
from ..judge.torture.runner import ENDED, PREFIX
from .histories import BYTES_MAX, Part, Report, parts

LOST = "no acknowledged update is lost"


def parts_of(runs: Sequence[Run], date: str) -> list[Part]:
    """Return the parts of one torture, or of two to compare, each a trace."""
    found: list[Part] = []
    again = command(runs[-1])
    for run in runs:
        prefix = f"{run.settings.library}-" if len(runs) > 1 else ""
        made = parts(report_of(run, date, again), BYTES_MAX // len(runs), prefix)
        whose = f"{run.settings.library}: " if len(runs) > 1 else ""
        found += [part._replace(title=whose + part.title) for part in made]
    return found


def report_of(run: Run, date: str, again: str) -> Report:
    """Return a torture as a history with the texts beside it."""
    settings = run.settings
    names = {event.name.partition("#")[0] for event in run.history if PREFIX in event.name}
    return Report(
        run.history,
        _rulings(run),
        f"Torture of {settings.library}, {settings.lock}",
        facts=[
            ("engine", run.url),
            ("seed", str(settings.seed)),
            ("date", date),
            ("versions", _versions(settings.library)),
            ("command", again),
        ],
        figures=[f"{run.tenures} grants", faults(run), *updates_in_words(run)]
        + ([run.remark] if run.remark else []),
        conclusion=conclusion(run),
        names={name: f"lock {name.rpartition('-')[2]}" for name in sorted(names, reverse=True)},
        losses=run.counters.losses,
    )


def command(run: Run) -> str:
    """Return the command line that runs it again, without the password of its URL."""
    settings = run.settings
    words = ["fencelock", "torture", run.url, "--seconds", f"{settings.seconds:g}"]
    words += ["--faults", ",".join(settings.faults), "--clients", str(settings.clients)]
    words += ["--ttl", f"{settings.ttl:g}", "--seed", str(settings.seed)]
    if settings.semaphore:
        words += ["--semaphore", str(settings.semaphore)]
    words += ["--rw"] if settings.rw else []
    words += ["--library", settings.library] if settings.library != OURS else []
    return shlex.join(words)


def _versions(library: str) -> str:
    known = [f"fencelock {__version__}", f"Python {platform.python_version()}"]
    if library != OURS:
        try:
            known.insert(1, f"{library} {version(name_on_index(library))}")
        except PackageNotFoundError:
            pass  # it can be imported, but was not installed as a package
    return ", ".join([*known, platform.system()])


def _rulings(run: Run) -> list[Ruling]:
    """Return the verdict as the report shows it: no promise of another library is known, and its
    lost updates without a guard count; what a silent engine keeps is undecided; a death counts."""
    found: list[Ruling] = []
    for ruling in run.verdict.rulings:
        if run.traits is None and ruling.checker == "no_lost_update":
            found.append(_lost(run))
        elif run.unheard and ruling.question == LEFT:
            why = f"the engine is silent: {run.unheard}"
            found.append(ruling._replace(outcome="undecided", why=why, violations=()))
        elif ruling.violations:
            found.append(ruling._replace(outcome=_said(run)))
        else:
            found.append(ruling)
    if run.deaths:
        found.append(_deaths(run))
    return found


def _lost(run: Run) -> Ruling:
    plain = updates(run.counters.plain.values())
    why = f"{plain.lost} of {plain.acknowledged}, and no fence to guard with"
    told = tuple(
        Violation("no_lost_update", f"{one.client} writes: {one.detail}", (), one.at)
        for one in run.counters.losses
    )
    outcome = _said(run) if told else "held"
    return Ruling("no_lost_update", LOST, outcome, why, told)


def _deaths(run: Run) -> Ruling:
    died: list[Event] = [one for one in run.history if one.verb == "crash" and one.detail == ENDED]
    told = tuple(
        Violation("no_death", words, (), event.at)
        for words, event in zip(run.deaths, died, strict=False)
    )
    return Ruling("no_death", "no client ends by itself", _said(run), "", told)


def _said(run: Run) -> str:
    """Return the outcome of a violation: of another library no promise is known to be broken."""
    return "broken" if run.traits is not None else "did not hold"
