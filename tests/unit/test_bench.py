"""The benchmark runs and reports. How fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("filelock", reason="the peers of bench/ are not installed")
if sys.platform == "win32":
    pytest.skip("bench/ asks POSIX systems what a process has used", allow_module_level=True)

from bench.harness import Result
from bench.works.handoff import Handoff, Turn, changes, judge

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("bench") / "report.json"
    subprocess.run(
        [sys.executable, "-W", "error", "-m", "bench", "pair", "--quick", "--json", str(file)],
        cwd=ROOT,
        check=True,
        timeout=100,
        stdout=subprocess.DEVNULL,
    )
    return json.loads(file.read_text())


def test_every_contestant_is_measured(report: Any) -> None:
    pair = report["works"]["pair"]
    assert {"raw sqlite3", "fencelock sqlite", "fencelock sqlite asyncio", "filelock"} <= {
        *pair["contestants"]
    }
    assert not pair["failed"]
    for figures in pair["contestants"].values():
        assert figures["medians"]["wall_us"] > 0
        assert len(figures["rounds"]) == 3


def test_figures_stand_beside_the_floor_and_the_peer(report: Any) -> None:
    pair = report["works"]["pair"]
    ratios = {name: figures["ratios"] for name, figures in pair["contestants"].items()}
    assert ratios["raw sqlite3"]["raw sqlite3"] == 1.0
    assert ratios["filelock"]["filelock"] == 1.0
    assert all({*found} == {"raw sqlite3", "filelock"} for found in ratios.values())
    assert {target["met"] for target in pair["targets"]} <= {True, False}
    assert [target["versus"] for target in pair["targets"]] == ["raw sqlite3", "filelock"]


def test_the_report_names_neither_the_machine_nor_its_paths(report: Any) -> None:
    text = json.dumps(report)
    assert str(ROOT) not in text
    assert tempfile.gettempdir() not in text
    assert {*report["machine"]} == {
        "architecture",
        "cores",
        "load",
        "packages",
        "processor",
        "python",
        "sqlite",
        "system",
    }


def turn(who: int, asked: int, joined: int, got: int) -> Turn:
    return Turn(who, asked, joined, got, left=got + 1, fence=0)


def test_turns_in_the_order_of_the_queue_are_not_overtaking() -> None:
    turns = [turn(1, 0, 1, 10), turn(2, 2, 3, 20), turn(1, 12, 13, 30)]
    assert judge(turns, end=100) == {"overlaps": 0, "overtaking": 0, "longest_ms": 18 / 1e6}
    assert changes(turns, end=100) == 2


def test_a_grant_before_one_that_stood_in_the_queue_is_overtaking() -> None:
    turns = [turn(1, 5, 6, 10), turn(1, 12, 13, 20), turn(2, 1, 2, 30), turn(3, 25, 26, 40)]
    assert judge(turns, end=100)["overtaking"] == 50


def test_one_who_asked_while_the_other_was_still_joining_has_not_overtaken() -> None:
    assert judge([turn(1, 3, 4, 10), turn(2, 1, 5, 20)], end=100)["overtaking"] == 0


def test_two_who_hold_the_lock_at_once_are_seen() -> None:
    turns = [Turn(1, 0, 1, 10, 20, 1), Turn(2, 2, 3, 15, 30, 2)]
    assert judge(turns, end=100)["overlaps"] == 1


def test_one_bad_round_is_not_hidden_by_the_median() -> None:
    result = Result(Handoff())
    quiet = {column.key: 0.0 for column in Handoff.columns}
    result.rounds["fencelock sqlite"] = [quiet, quiet, {**quiet, "overlaps": 1.0}]
    missed = {verdict.target.key for verdict in result.verdicts() if not verdict.met}
    assert missed == {"handoffs", "overlaps"}
