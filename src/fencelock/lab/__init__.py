"""The lab: play a scenario of a lock that goes wrong, with the package's own engines.

    from fencelock import lab

    trace = lab.play(lab.load("ghost-writer", fence="no guard"))
    trace.outcome["register"], trace.verdict

A document is plain JSON: actors with scripts, an engine, a resource, faults, a seed. Playing it
reads no clock: equal documents give equal traces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .player import play
from .switches import chosen, combinations
from .trace import Trace

__all__ = [
    "Trace",
    "chosen",
    "combinations",
    "export",
    "load",
    "play",
    "scenario",
    "scenarios",
]

_HERE = Path(__file__).parent / "scenarios"


def scenarios() -> list[str]:
    """Return the names of the scenarios that come with the package, in their order."""
    found = {path.stem: _read(path) for path in _HERE.glob("*.json")}
    return sorted(found, key=lambda name: (found[name].get("number", 0), name))


def scenario(name: str) -> dict[str, Any]:
    """Return a scenario with all its switches."""
    path = _HERE / f"{name}.json"
    if name not in {one.stem for one in _HERE.glob("*.json")}:
        raise UsageError(f"there is no scenario {name!r}; there are {', '.join(scenarios())}")
    found = _read(path)
    found.pop("number", None)
    return found


def load(name: str, /, **switches: str) -> dict[str, Any]:
    """Return the document of a scenario with these switches set, the others at their first one."""
    return chosen(scenario(name), **switches)


def export(
    document: Mapping[str, Any], path: str | Path, /, *, name: str = "", **switches: str
) -> None:
    """Write a page of one file that shows the document in every combination of its switches.

    It needs neither a server nor a network, and has at most 400 kB; UsageError is raised if it
    cannot be made or written. ``name`` is the argument of ``fencelock lab`` that the page suggests;
    the switches select what the page shows first.
    """
    from .recorded import recorded_page

    known = next((one for one in scenarios() if scenario(one) == document), "")
    chosen(document, **switches)  # raises UsageError if the switches are wrong
    page = recorded_page(document, name=known or name or "DOC", own=not known, choices=switches)
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
