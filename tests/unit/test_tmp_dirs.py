"""Where a run of the tests keeps its files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import tmp_dirs

GB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of which nothing is known yet."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tmp_dirs, "MEMORY", tmp_path / "memory")
    monkeypatch.setattr(tmp_dirs, "AVAILABLE", tmp_path / "available")
    monkeypatch.setattr(tmp_dirs, "LIMIT", tmp_path / "limit")
    monkeypatch.setattr(tmp_dirs, "NEEDED", 1 << 20)
    return tmp_path


def has(machine: Path, available: int, limit: str = "max") -> None:
    (machine / "memory").mkdir(exist_ok=True)
    (machine / "available").write_text(f"MemFree: 7 kB\nMemAvailable:   {available >> 10} kB\n")
    (machine / "limit").write_text(f"{limit}\n")


def test_files_lie_in_memory_and_are_gone_afterward(machine: Path) -> None:
    has(machine, GB)
    with tmp_dirs.temporary_folder() as environment:
        folder = Path(environment["TMPDIR"])
        assert folder.parent == machine / "memory"
        assert folder.stat().st_mode & 0o7777 == 0o1777
        (folder / "file").touch()
    assert list((machine / "memory").iterdir()) == []
    assert "TMPDIR" not in os.environ


def test_who_has_set_a_folder_keeps_it(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    has(machine, GB)
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    with tmp_dirs.temporary_folder() as environment:
        assert environment["TMPDIR"] == "/elsewhere"


@pytest.mark.parametrize(("available", "limit"), [(1 << 19, "max"), (GB, str(1 << 19)), (0, "max")])
def test_little_memory_is_left_alone(machine: Path, available: int, limit: str) -> None:
    has(machine, available, limit)
    with tmp_dirs.temporary_folder() as environment:
        assert "TMPDIR" not in environment


def test_a_machine_that_tells_nothing_has_none(machine: Path) -> None:
    assert tmp_dirs.free_bytes() == 0
    (machine / "memory").mkdir()
    assert tmp_dirs.free_bytes() == 0
    has(machine, GB, str(GB >> 1))
    assert tmp_dirs.free_bytes() <= GB >> 1
