"""No hazard without a test, no test without its hazard."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.faults.matrix import HAZARDS, MATRIX, NotApplicable

HERE = Path(__file__).parent
FILES = [
    *sorted(HERE.rglob("test_*.py")),
    HERE / "../unit/test_odd_input.py",
    *sorted((HERE / "../engines").rglob("test_*.py")),
]
OWN = "../engines/"  # what an engine shows of itself counts, and need not be listed


def read_tests() -> dict[str, set[str]]:
    """Every test of these files with the hazards that its docstring names."""
    found = {}
    for file in FILES:
        prefix = file.relative_to(HERE)
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                words = ast.get_docstring(node) or ""
                found[f"{prefix}::{node.name}"] = set(re.findall(r"\bH\d\d\b", words))
    return found


def test_every_hazard_has_a_test_or_a_reason() -> None:
    assert {*MATRIX} <= {*HAZARDS}
    own = {test: hazards for test, hazards in read_tests().items() if test.startswith(OWN)}
    for hazard in HAZARDS:
        row = MATRIX.get(hazard, [])
        shown = [test for test, hazards in own.items() if hazard in hazards]
        assert row or shown, f"{hazard} has neither"
        if isinstance(row, NotApplicable):
            assert len(row.why) > 20, f"{hazard} needs a reason that can be understood"
            assert not shown, f"{shown} shows {hazard}: it is applicable"


def test_every_test_of_a_hazard_exists_and_names_it() -> None:
    known = read_tests()
    for hazard, row in MATRIX.items():
        for test in [] if isinstance(row, NotApplicable) else row:
            assert hazard in known.get(test, set()), f"{test} does not show {hazard}"


def test_every_test_that_names_a_hazard_is_in_its_row() -> None:
    for test, hazards in read_tests().items():
        for hazard in hazards if not test.startswith(OWN) else ():
            row = MATRIX.get(hazard, [])
            assert not isinstance(row, NotApplicable), f"{test} shows {hazard}: it is applicable"
            assert test in row, f"{hazard} does not list {test}"


def test_every_test_here_names_a_hazard() -> None:
    nameless = [test for test, hazards in read_tests().items() if not hazards]
    allowed = ("test_matrix.py", "test_faulty.py", "test_first_open.py", "../unit/", OWN)
    assert [test for test in nameless if not test.startswith(allowed)] == []
