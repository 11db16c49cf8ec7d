"""The lab: play a scenario of a lock that goes wrong, with the package's own engines.

    from fencelock import lab

    trace = lab.play(lab.load("ghost-writer", fence="no guard"))
    trace.outcome["register"], trace.verdict

A document is plain JSON: actors with scripts, an engine, a resource, faults, a seed. Playing it
reads no clock: equal documents give equal traces.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .document import chosen, combinations
from .player import play
from .trace import Trace

__all__ = ["Trace", "chosen", "combinations", "load", "play", "scenario", "scenarios"]

_HERE = Path(__file__).parent / "scenarios"


def scenarios() -> list[str]:
    """The names of the scenarios that come with the package, in their order."""
    found = {path.stem: _read(path) for path in _HERE.glob("*.json")}
    return sorted(found, key=lambda name: (found[name].get("number", 0), name))


def scenario(name: str) -> dict[str, Any]:
    """A scenario with all its switches."""
    path = _HERE / f"{name}.json"
    if name not in {one.stem for one in _HERE.glob("*.json")}:
        raise UsageError(f"there is no scenario {name!r}; there are {', '.join(scenarios())}")
    found = _read(path)
    found.pop("number", None)
    return found


def load(name: str, /, **switches: str) -> dict[str, Any]:
    """The document of a scenario with its switches set, the others at their first choice."""
    return chosen(scenario(name), **switches)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
