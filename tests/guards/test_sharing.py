"""Readers and writers at every resource: who is refused, by which mark, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guards import sharing
from tests.guards.resources import TABLE, load

SILENT = {"dynalite", "django", "sqlalchemy"}
"""They cannot say which mark refused: the one answers without, the others know one column."""
UNMARKED = {
    *("sqlite", "postgresql", "postgresql in a block", "mariadb", "mysql"),
    *("rows", "rows of postgresql", "rows of mariadb", "django", "sqlalchemy"),
}
"""Their writers know only the mark of all, which an equal fence does not change."""


class Resource:
    """A counter of ``resources/``."""

    def __init__(self, name: str, folder: Path) -> None:
        kind = load(TABLE[name])
        self._counter = kind(kind.prepare(folder))
        self.tells = name not in SILENT
        self.close = self._counter.close

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._counter, verb)


@pytest.fixture
def resource(name: str, tmp_path: Path) -> Iterator[Resource]:
    found = Resource(name, tmp_path)
    yield found
    found.close()


every_resource = pytest.mark.parametrize("name", sorted(TABLE))


@every_resource
def test_writers_meet_both_marks_and_readers_that_of_the_writers(resource: Any) -> None:
    sharing.keeps_two_marks(resource)


@every_resource
@pytest.mark.parametrize("seed", range(3))
def test_nothing_stale_passes_in_any_order(resource: Any, seed: int) -> None:
    sharing.interleave(resource, seed)


@pytest.mark.parametrize("name", sorted(TABLE.keys() - UNMARKED))
def test_a_late_write_of_who_reads_now_shuts_older_readers_out(resource: Any) -> None:
    sharing.a_write_by_the_highest_readers_own_fence_counts(resource)
