"""Which engines each test runs over, read from its text: what the grid should be full of."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.faults import engines
from tests.faults.grid import ALONE, ENGINES, KINDS, OF_SQLITE, engine_of_path, hazards_in
from tests.faults.matrix import ELSEWHERE, MATRIX, NOT_YET, ONLY, NotApplicable

HERE = Path(__file__).parent
FILES = [
    *sorted(HERE.rglob("test_*.py")),
    HERE / "../unit/test_odd_input.py",
    *sorted((HERE / "../engines").rglob("test_*.py")),
    *sorted((HERE / "../service").rglob("test_*.py")),
]
BEHIND_THE_SERVICE = {
    "test_rolls.py": {"sqlite", "redis", "postgresql", "etcd"},
    "test_partitions.py": {"redis", "postgresql", "etcd"},
}
"""Files of the service's tests whose ``kind`` is the engine behind it, and which."""
IN_THE_CLIENT = "the hazard and its cure lie in the client or the service, above any engine"


class Test(NamedTuple):
    """A test of some hazards, as its text tells."""

    place: str
    hazards: frozenset[str]
    engines: frozenset[str]
    needs: frozenset[str]
    """What it asks of engines: those that lack it are left out."""

    @property
    def in_the_client(self) -> bool:
        """Whether engines have no part in it."""
        return self.engines <= {ALONE, "memory", "sqlite"} and not self.needs


@cache
def read_tests() -> tuple[Test, ...]:
    """Every test of these files."""
    return tuple(
        _read(file, node)
        for file in FILES
        for node in _parsed(file).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def _parsed(file: Path) -> ast.Module:
    """The text of a file as a tree.

    Nothing is finalized meanwhile: a task that was left behind would be reported with a traceback,
    for which CPython 3.11 parses a line, and of two that are parsed at once the first one fails
    ("AST constructor recursion depth mismatch").
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    finally:
        if was_on:
            gc.enable()


def _read(file: Path, node: ast.FunctionDef) -> Test:
    place = f"{file.relative_to(HERE)}::{node.name}"
    hazards = frozenset(hazards_in(ast.get_docstring(node)))
    given = {argument.arg for argument in node.args.args}
    if "network" in given and file.parent == HERE:
        given.add("server_url")  # which that fixture puts a proxy before
    fixture = next((name for name in engines.FIXTURES if name in given), None)
    if fixture is not None:
        needs = frozenset(engines.FIXTURES[fixture] | _marked(node))
        return Test(place, hazards, frozenset(engines.suitable(needs, file.name)), needs)
    if "kind" in given and file.name in BEHIND_THE_SERVICE:
        return Test(place, hazards, frozenset(BEHIND_THE_SERVICE[file.name]), frozenset())
    if "client_url" in given:
        over = {"memory", "sqlite"}
    else:
        folder = engine_of_path(file)
        one = folder or ("sqlite" if given & OF_SQLITE else ALONE)
        over = {*KINDS.get(one, (one,))}
    return Test(place, hazards, frozenset(over), frozenset())


def _marked(node: ast.FunctionDef) -> set[str]:
    """What ``@pytest.mark.needs(…)`` asks for."""
    return {
        str(argument.value)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.needs"
        for argument in mark.args
        if isinstance(argument, ast.Constant)
    }


def row_of(hazard: str) -> list[Test] | NotApplicable:
    """All tests of a hazard, or why there is none."""
    row = MATRIX.get(hazard)
    if isinstance(row, NotApplicable):
        return row
    return [test for test in read_tests() if hazard in test.hazards]


def why_not(hazard: str, engine: str) -> str:
    """Why an engine has no test for a hazard; nothing when there is no reason."""
    row = row_of(hazard)
    if isinstance(row, NotApplicable):
        return row.why
    for reasons in (NOT_YET, ELSEWHERE):
        if (hazard, engine) in reasons:
            return reasons[hazard, engine]
    for hazards, (concerned, why) in ONLY.items():
        if hazard in hazards and engine not in concerned:
            return why
    if all(test.in_the_client for test in row):
        return IN_THE_CLIENT
    store = engines.STORES.get(engine)
    if store is None:
        return ""
    if any(test.place.partition("::")[0] in store.left_out for test in row):
        return store.why_left_out
    wanted = [need for test in row for need in sorted(test.needs) if need in store.lacks]
    return store.lacks[wanted[0]] if wanted else ""


def covered(hazard: str) -> set[str]:
    """The engines over which a hazard is shown, in a run of all tests."""
    row = row_of(hazard)
    if isinstance(row, NotApplicable):
        return set()
    return {engine for test in row for engine in test.engines}


def gaps() -> list[tuple[str, str]]:
    """Cells with neither a test nor a reason."""
    found: list[tuple[str, str]] = []
    for hazard in sorted({*MATRIX} | {one for test in read_tests() for one in test.hazards}):
        row = row_of(hazard)
        if isinstance(row, NotApplicable):
            continue
        found += [
            (hazard, engine)
            for engine in ENGINES
            if engine not in covered(hazard) and not why_not(hazard, engine)
        ]
    return found
