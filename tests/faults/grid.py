"""The hazards as a grid: hazard by engine by flavor, from the outcomes of one run of the tests.

A test names its hazards in its docstring. Which engine it runs over is said by its parameter or its
folder. ``tests/conftest.py`` labels every test with both, so that the outcomes find their cells
wherever they come from, and prints the grid when all is done.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

TESTS = Path(__file__).parents[1]
LABEL = "hazards"
PARAMETERS = ("url", "shared_url", "server_url", "client_url", "kind", "standing")
TESTS = Path(__file__).resolve().parents[1]
ENGINES = (
    "memory",
    "sqlite",
    "postgresql",
    "mariadb",
    "mysql",
    "redis",
    "redlock",
    "consul",
    "dynamodb",
    "spanner",
    "etcd",
    "firestore",
    "hazelcast",
    "zookeeper",
    "http",
)
KINDS = {"mysql": ("mariadb", "mysql")}  # engines that speak to two kinds of server
OF_SQLITE = {"file_url", "database", "small_disk"}  # fixtures that lead to its file
ALONE = "client"  # the hazard never reaches an engine
MARKS = {"sync": "s", "asyncio": "a"}
TITLE_WIDTH = 34
CELL_WIDTH = 11


class Outcome(NamedTuple):
    """What became of one test in one cell."""

    hazard: str
    engine: str
    flavor: str
    result: str
    """passed, failed or skipped."""
    why: str = ""


def hazards_in(words: str | None) -> list[str]:
    """The hazards that a docstring names."""
    return list(dict.fromkeys(re.findall(r"\bH\d\d\b", words or "")))


def label(item: pytest.Item) -> None:
    """Have the reports of a test say to which cells it belongs."""
    hazards = hazards_in(getattr(getattr(item, "function", None), "__doc__", ""))
    if hazards:
        for engine in _engines_of(item):
            item.user_properties.append((LABEL, [hazards, engine, _flavor_of(item)]))


def _engines_of(item: pytest.Item) -> Sequence[str]:
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    for name in PARAMETERS:
        if parameters.get(name) in ENGINES:
            return [str(parameters[name])]
    if folder := engine_of_path(item.path):
        return KINDS.get(folder, (folder,))
    fixtures: Sequence[str] = getattr(item, "fixturenames", ())
    return ["sqlite" if OF_SQLITE & {*fixtures} else ALONE]


def engine_of_path(path: Path) -> str:
    """The engine whose folder a test stands in, or nothing."""
    parts = path.resolve().parts[len(TESTS.parts) : -1]  # wherever the tests themselves lie
    return next((part for part in reversed(parts) if part in ENGINES), "")


def _flavor_of(item: pytest.Item) -> str:
    parameters: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return MARKS.get(str(parameters.get("flavor", "")), "")


def outcomes(stats: Mapping[str, Sequence[Any]]) -> Iterator[Outcome]:
    """The outcomes that a run of pytest has gathered, on any number of workers."""
    for result in ("passed", "failed", "error", "skipped"):
        for report in stats.get(result, ()):
            for name, value in getattr(report, "user_properties", ()):
                if name == LABEL and (report.when == "call" or result in ("skipped", "error")):
                    hazards, engine, flavor = value
                    why = _reason(report) if result == "skipped" else ""
                    short = "failed" if result == "error" else result
                    for hazard in hazards:
                        yield Outcome(hazard, engine, flavor, short, why)


def _reason(report: Any) -> str:
    place = report.longrepr
    return str(place[2] if isinstance(place, tuple | list) else place).removeprefix("Skipped: ")


def lines(found: Iterable[Outcome]) -> list[str]:
    """The grid, and below it what its signs mean and why cells are empty."""
    from tests.faults.coverage import row_of
    from tests.faults.matrix import NotApplicable
    from tests.faults.titles import TITLES

    cells: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in found:
        cells[outcome.hazard, outcome.engine].append(outcome)
    columns = [*ENGINES, *([ALONE] if any(engine == ALONE for _, engine in cells) else [])]
    shown = {hazard for hazard, _ in cells}
    head = " " * TITLE_WIDTH + "".join(f"{engine:>{CELL_WIDTH}}" for engine in columns)
    grid: list[str] = [head]
    notes: dict[str, list[str]] = defaultdict(list)
    reasoned: set[str] = set()
    for hazard, title in TITLES.items():
        row = row_of(hazard)
        if isinstance(row, NotApplicable):
            notes[f"all: {row.why}"].append(hazard)
            reasoned.add(hazard)
            continue
        if hazard not in shown:
            continue
        texts = []
        for engine in columns:
            text, note = _cell(hazard, engine, cells.get((hazard, engine), []))
            texts.append(f"{text:>{CELL_WIDTH}}")
            if note:
                notes[note].append(hazard)
        grid.append(f"{hazard} {title}"[: TITLE_WIDTH - 1].ljust(TITLE_WIDTH) + "".join(texts))
    if missing := [one for one in TITLES if one not in shown and one not in reasoned]:
        notes["not in this run"] = missing
    return [*grid, "", SIGNS, *_told(notes)] if shown else []


SIGNS = (
    "2s 2a 1: passed with threads, with asyncio, and where there is no choice; "
    "-: not applicable; .: not in this run; skip; FAIL"
)


def _cell(hazard: str, engine: str, here: Sequence[Outcome]) -> tuple[str, str]:
    """What stands in a cell, and what is said of it below."""
    if not here:
        from tests.faults.coverage import covered, why_not

        if engine == ALONE:
            return "", ""
        if engine in covered(hazard):
            return ".", ""
        return "-", f"{engine}: {why_not(hazard, engine)}"
    if any(outcome.result == "failed" for outcome in here):
        return "FAIL", ""
    passed = Counter(outcome.flavor for outcome in here if outcome.result == "passed")
    skipped = [outcome for outcome in here if outcome.result == "skipped"]
    note = f"skipped, {engine}: {skipped[0].why}" if skipped else ""
    text = " ".join(f"{passed[mark]}{mark}" for mark in ("s", "a", "") if passed[mark])
    return (f"{text} skip" if text and skipped else text or "skip"), note


def _told(notes: Mapping[str, Sequence[str]]) -> list[str]:
    """Each reason once, with the hazards that it is for."""
    return [f"  {note} ({_ranges(hazards)})" for note, hazards in notes.items()]


def _ranges(hazards: Sequence[str]) -> str:
    """H01, H02 and H03 are H01-H03."""
    runs: list[list[str]] = []
    for hazard in hazards:
        if runs and int(hazard[1:]) == int(runs[-1][-1][1:]) + 1:
            runs[-1].append(hazard)
        else:
            runs.append([hazard])
    return " ".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
