"""The claim itself, for every resource: real processes, a real lock, a real resource."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guards import claim
from tests.guards.crew import Crew
from tests.guards.resources import TABLE, load

RESOURCES = Path(__file__).parent / "resources"


@pytest.fixture(params=sorted(TABLE))
def crew(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crew]:
    """The processes of one test, around a counter of its own."""
    module = TABLE[request.param]
    crew = Crew(module, load(module).prepare(tmp_path), tmp_path)
    yield crew
    crew.clear()


def test_a_frozen_holder_loses_an_update_without_the_guard_and_none_with_it(crew: Crew) -> None:
    """H01, H03"""
    bare = claim.freeze_a_writer(crew, guarded=False)
    assert bare == {"acknowledged": 2, "counted": 1, "refused": 0}, "the test cannot see a loss"
    guarded = claim.freeze_a_writer(crew, guarded=True)
    assert guarded == {"acknowledged": 1, "counted": 1, "refused": 1}


def test_a_read_shuts_the_frozen_holder_out(crew: Crew) -> None:
    """H04"""
    claim.freeze_before_a_read(crew)


def test_sixteen_processes_at_once_are_never_accepted_out_of_order(crew: Crew) -> None:
    claim.crowd(crew)


def test_a_writer_killed_anywhere_leaves_the_resource_whole(crew: Crew) -> None:
    claim.hunt(crew)


def test_a_reader_shuts_the_frozen_writer_out_and_no_other_reader(crew: Crew) -> None:
    claim.freeze_before_a_reader(crew)


def test_sixteen_processes_that_read_and_write_are_never_let_in_out_of_order(crew: Crew) -> None:
    claim.crowd_of_readers(crew)


def test_every_resource_is_tested() -> None:
    """A module without its line in the table would be left out in silence."""
    files = {f"tests.guards.resources.{path.stem}" for path in RESOURCES.glob("[!_]*.py")}
    assert set(TABLE.values()) == files
