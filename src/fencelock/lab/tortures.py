"""The report of a torture for its page: its history as parts, and when and how it was run."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from .. import __version__
from ..judge.torture.peers import OURS, name_on_index
from ..judge.torture.report import conclusion, faults, updates_in_words
from ..judge.torture.rulings import rulings_of
from ..judge.torture.run import Run
from ..judge.torture.runner import PREFIX
from .histories import BYTES_MAX, Part, Report, parts


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
        rulings_of(run),
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
