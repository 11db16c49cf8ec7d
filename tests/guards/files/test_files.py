"""What the guard of files does with the file, its drafts and the mark beside it."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

import fencelock
from fencelock import LeaseLost, Misconfigured, StaleFence, Unavailable, UsageError
from fencelock.guards.files import FileGuard, forget, guarded_open, guarded_replace, sidecar


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.txt"


def beside(path: Path) -> list[str]:
    """What else is in the folder, but for the mark."""
    return sorted(p.name for p in path.parent.iterdir() if p.name not in (path.name, hidden(path)))


def hidden(path: Path) -> str:
    return f".{path.name}.fence"


def test_a_lease_guards_a_file(path: Path) -> None:
    with fencelock.connect("memory://") as client:
        with client.lock("report") as first:
            guarded_replace(path, "one", first)
        with client.lock("report") as second:
            with guarded_open(path, "r", second) as file:
                assert file.read() == "one"
            with guarded_open(path, "a", second) as file:
                file.write(" and two")
        with pytest.raises(StaleFence):
            guarded_replace(path, "late", first.fence, name="report")
        with pytest.raises(StaleFence), guarded_open(path, "r", first.fence, name="report"):
            pass
        with pytest.raises(LeaseLost):
            guarded_replace(path, "late", first)
    assert path.read_text() == "one and two"
    assert beside(path) == []


@pytest.mark.parametrize(
    ("mode", "content"),
    [("w", "new"), ("wb", b"new"), ("a", "new"), ("ab", b"new"), ("w+", "new"), ("r+b", b"new")],
)
def test_modes_are_those_of_open(path: Path, mode: str, content: str | bytes) -> None:
    path.write_bytes(b"old content")
    plain = path.with_name("plain.txt")
    plain.write_bytes(b"old content")
    with guarded_open(path, mode, 1) as file, open(plain, mode) as other:
        file.write(content)
        other.write(content)
    assert path.read_bytes() == plain.read_bytes()


def test_an_encoding_is_passed_on(path: Path) -> None:
    with guarded_open(path, "w", 1, encoding="utf-16", newline="\n") as file:
        file.write("größer\n")
    assert path.read_bytes().decode("utf-16") == "größer\n"


@pytest.mark.parametrize("mode", ["x", "q", "", "rw", "x+b", 7])
def test_other_modes_are_refused(path: Path, mode: str) -> None:
    with pytest.raises(UsageError), guarded_open(path, mode, 1):
        pass


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_file_that_is_not_there_cannot_be_read(path: Path, mode: str) -> None:
    with pytest.raises(FileNotFoundError), guarded_open(path, mode, 1):
        pass
    assert beside(path) == []


def test_what_was_written_is_dropped_when_the_block_raises(path: Path) -> None:
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        with guarded_open(path, "w", 1) as file:
            file.write("half of the new")
            file.flush()
            assert path.read_text() == "old"
            _ = 1 / 0
    assert path.read_text() == "old"
    assert beside(path) == []


def test_whoever_became_stale_while_writing_is_refused_in_the_end(path: Path) -> None:
    path.write_text("old")
    with pytest.raises(StaleFence):
        with guarded_open(path, "w", 1) as file:
            file.write("late")
            FileGuard(path).enter(2)
    assert path.read_text() == "old"
    assert beside(path) == []


def test_drafts_of_the_dead_are_removed_by_the_next_holder(path: Path) -> None:
    ghost = guarded_open(path, "w", 1)
    ghost.__enter__().write("never finished")  # as if it were killed here
    other = path.with_name("report.txt.bak")
    guarded_replace(other, "another file", 1)
    assert len(beside(path)) == 3  # the draft, the other file and its mark
    FileGuard(path).enter(2)
    assert beside(path) == [f".{other.name}.fence", other.name]
    with pytest.raises(StaleFence):
        ghost.__exit__(None, None, None)
    assert not path.exists()


def test_permissions_are_kept(path: Path) -> None:
    path.write_text("old")
    path.chmod(0o640)
    guarded_replace(path, "new", 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_links_to_a_file_share_its_mark(path: Path) -> None:
    path.write_text("old")
    link = path.with_name("link")
    link.symlink_to(path)
    guarded_replace(link, "new", 5)
    assert link.is_symlink()
    assert path.read_text() == "new"
    with pytest.raises(StaleFence):
        guarded_replace(path, "late", 4)


def test_a_file_belongs_to_one_lock(path: Path) -> None:
    with fencelock.connect("memory://") as client:
        with client.lock("one") as one, client.lock("other") as other:
            guarded_replace(path, "new", one)
            with pytest.raises(UsageError, match="one"):
                guarded_replace(path, "of another lock", other)
            assert path.read_text() == "new"
            FileGuard(path).reset()
            guarded_replace(path, "moved", other)


def test_a_missing_folder_is_said(path: Path) -> None:
    with pytest.raises(Misconfigured, match="folder"):
        guarded_replace(path.parent / "none" / "file", "new", 1)


def test_looking_makes_no_files(path: Path) -> None:
    guard = FileGuard(path)
    assert guard.mark() == 0
    guard.reset()
    assert forget(path.parent, 1) == 0
    assert list(path.parent.iterdir()) == []


def test_one_who_is_frozen_in_the_middle_is_not_waited_for_without_end(path: Path) -> None:
    guarded_replace(path, "old", 1)
    with sidecar.locked(str(path.with_name(hidden(path))), 10):
        with pytest.raises(Unavailable, match="busy"):
            FileGuard(path, timeout=0.05).replace("new", 2)
    assert path.read_text() == "old"
    assert beside(path) == []
    assert FileGuard(path).mark() == 1


def test_who_waits_while_the_mark_is_forgotten_begins_with_a_new_one(path: Path) -> None:
    guard = FileGuard(path, timeout=30)
    guard.enter(9)
    mark = path.with_name(hidden(path))
    enter = threading.Thread(target=guard.enter, args=(1,))
    with sidecar.locked(str(mark), 10):
        enter.start()
        _until_open_twice(mark)
        mark.unlink()
    enter.join(30)
    assert guard.mark() == 1


def _until_open_twice(path: Path) -> None:
    """Until another has the file open, and so waits for its lock."""
    give_up = threading.Event()
    for _ in range(3000):
        here = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        if here.count(str(path)) >= 2:
            return
        give_up.wait(0.01)
    raise AssertionError("nobody waits for the mark")


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_mark_locked(path: Path) -> None:
    mark = str(path.with_name(hidden(path)))
    with sidecar.locked(mark, 10) as descriptor:
        assert descriptor is not None
        copy = os.dup(descriptor)  # what a forked child has: the same open file
    try:
        FileGuard(path, timeout=0.05).enter(1)
    finally:
        os.close(copy)
