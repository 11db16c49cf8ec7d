"""The tests of the claim can fail: each catches the mistake that it is there for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.guards import claim
from tests.guards.crew import Crew
from tests.guards.resources import load

LOSS = {"acknowledged": 2, "counted": 1, "refused": 0}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Crew]]:
    """Make the processes around a counter of ``specimens.py``."""
    crews: list[Crew] = []

    def begin(name: str) -> Crew:
        folder = tmp_path / str(len(crews))
        folder.mkdir()
        place = f"tests.guards.specimens:{name}"
        crews.append(Crew(place, load(place).prepare(folder), folder))
        return crews[-1]

    yield begin
    for crew in crews:
        crew.clear()


def test_a_right_guard_passes(start: Callable[[str], Crew]) -> None:
    crew = start("Right")
    assert claim.freeze_a_writer(crew, guarded=False) == LOSS
    assert claim.freeze_a_writer(crew, guarded=True)["refused"] == 1
    claim.freeze_before_a_read(crew)
    claim.crowd(start("Right"))
    claim.hunt(start("Right"), kills=40)
    claim.freeze_before_a_reader(start("Right"))
    claim.crowd_of_readers(start("Right"))


def test_a_guard_that_refuses_nothing_is_caught(start: Callable[[str], Crew]) -> None:
    assert claim.freeze_a_writer(start("NoCheck"), guarded=True) == LOSS


def test_a_guard_that_does_not_count_reads_is_caught(start: Callable[[str], Crew]) -> None:
    with pytest.raises(AssertionError):
        claim.freeze_before_a_read(start("BlindRead"))


@pytest.mark.parametrize("name", ["NoCheck", "BlindRead", "TwoSteps"])
def test_a_guard_that_accepts_out_of_order_is_caught(
    name: str, start: Callable[[str], Crew]
) -> None:
    with pytest.raises(AssertionError):
        for _ in range(20):  # which of them is how far is chance
            claim.crowd(start(name))


@pytest.mark.parametrize("name", ["NoCheck", "OneMark", "ReadersWrite"])
def test_a_guard_that_does_not_tell_readers_from_writers_is_caught(
    name: str, start: Callable[[str], Crew]
) -> None:
    with pytest.raises(AssertionError):
        claim.freeze_before_a_reader(start(name))


@pytest.mark.parametrize("name", ["NoCheck", "OneMark", "ReadersWrite"])
def test_a_guard_that_admits_readers_out_of_order_is_caught(
    name: str, start: Callable[[str], Crew]
) -> None:
    with pytest.raises(AssertionError):
        for _ in range(20):  # which of them is how far is chance
            claim.crowd_of_readers(start(name))


def test_a_guard_that_a_crash_breaks_is_caught(start: Callable[[str], Crew]) -> None:
    with pytest.raises(AssertionError, match="kill"):
        claim.hunt(start("WriteFirst"))
