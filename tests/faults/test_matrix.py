"""No hazard without a test, no test without its hazard, no engine without either or a reason."""

from __future__ import annotations

from types import SimpleNamespace

from tests.faults import grid
from tests.faults.coverage import covered, gaps, read_tests, row_of
from tests.faults.matrix import ELSEWHERE, MATRIX, NOT_YET, ONLY, NotApplicable
from tests.faults.titles import HAZARDS

OWN = "../engines/"  # what an engine shows of itself counts, and need not be listed


def test_every_hazard_has_a_test_or_a_reason() -> None:
    assert {*MATRIX} <= {*HAZARDS}
    for hazard in HAZARDS:
        row = MATRIX.get(hazard, [])
        shown = [test.place for test in read_tests() if hazard in test.hazards]
        if isinstance(row, NotApplicable):
            assert len(row.why) > 20, f"{hazard} needs a reason that can be understood"
            assert not shown, f"{shown} shows {hazard}: it is applicable"
        else:
            assert shown, f"{hazard} has neither"


def test_every_test_of_a_hazard_exists_and_names_it() -> None:
    known = {test.place: test.hazards for test in read_tests()}
    for hazard, row in MATRIX.items():
        for place in [] if isinstance(row, NotApplicable) else row:
            assert hazard in known.get(place, set()), f"{place} does not show {hazard}"


def test_every_test_that_names_a_hazard_is_in_its_row() -> None:
    for test in read_tests():
        for hazard in test.hazards if not test.place.startswith(OWN) else ():
            row = MATRIX.get(hazard, [])
            assert not isinstance(row, NotApplicable), f"{test.place} shows {hazard}"
            assert test.place in row, f"{hazard} does not list {test.place}"


def test_every_test_here_names_a_hazard() -> None:
    nameless = [test.place for test in read_tests() if not test.hazards]
    allowed = (
        "test_matrix.py",
        "test_faulty.py",
        "test_first_open.py",
        "../unit/",
        "../service/",
        OWN,
    )
    assert [place for place in nameless if not place.startswith(allowed)] == []


def test_every_engine_meets_every_hazard_or_there_is_a_reason() -> None:
    assert gaps() == []


def test_a_reason_is_given_only_where_there_is_no_test() -> None:
    for hazards, (concerned, _) in ONLY.items():
        for hazard in hazards:
            row = row_of(hazard)
            assert not isinstance(row, NotApplicable)
            over = {engine for test in row for engine in test.engines} - {grid.ALONE}
            assert over <= concerned, f"{hazard} is shown over {over - concerned}, too"
    for hazard, engine in (*NOT_YET, *ELSEWHERE):
        assert engine not in covered(hazard), f"{hazard} is shown over {engine}"


def report(engine: str, flavor: str, **facts: object) -> SimpleNamespace:
    label = (grid.LABEL, [["H01", "H21"], engine, flavor])
    return SimpleNamespace(user_properties=[label], when="call", **facts)


def test_the_grid_says_what_the_run_has_shown() -> None:
    stats = {
        "passed": [report("redis", "s"), report("redis", "a")],
        "failed": [report("etcd", "a")],
        "skipped": [report("mysql", "s", longrepr=("f", 1, "Skipped: not installed"))],
    }
    text = grid.lines(grid.outcomes(stats))
    head, first, *_ = text
    row = first[grid.TITLE_WIDTH :].replace("1s 1a", "1s1a").split()
    cells = dict(zip(head.split(), row, strict=True))
    assert first.startswith("H01 frozen past the ttl")
    assert (cells["redis"], cells["etcd"], cells["mysql"]) == ("1s1a", "FAIL", "skip")
    assert (cells["memory"], cells["sqlite"]) == ("-", ".")
    assert any("skipped, mysql: not installed" in line for line in text)
    assert any(line.startswith("  memory: lives in one process (") for line in text)
    assert any(line.startswith("  not in this run (H02-H20 H22-H86)") for line in text)
    assert grid.lines([]) == []
