"""What a crash or a power cut may leave behind, and that it is judged rightly."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fencelock import Denied, Misconfigured, OutcomeUnknown, StaleFence, Unavailable
from fencelock.guards.files import FileGuard, guard, sidecar


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "report.txt"


def mark_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.fence")


def test_the_mark_is_on_the_disk_before_the_content_takes_its_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        kind = "mark" if name.endswith(".fence") else "draft" if name[0] == "." else "folder"
        done.append(f"sync {kind}")
        fsync(descriptor)

    def replaced(source: str, target: str) -> None:
        done.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    FileGuard(path).replace("new", 1)
    assert done == ["sync mark", "sync folder", "sync draft", "replace", "sync folder"]
    done.clear()
    FileGuard(path).replace("newer", 1)
    assert done == ["sync draft", "replace", "sync folder"]
    done.clear()
    FileGuard(path, durable=False).replace("newest", 2)
    assert done == ["replace"]


def failing(number: int, text: str) -> Callable[..., Any]:
    """A function of the operating system that fails like this."""

    def fail(*_: Any) -> NoReturn:
        raise OSError(number, text)

    return fail


def test_a_failure_between_mark_and_content_leaves_the_old_content_under_the_new_mark(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileGuard(path).replace("old", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing(errno.EIO, "the disk is gone"))
        with pytest.raises(OSError, match="disk is gone"):
            FileGuard(path).replace("new", 2)
    assert path.read_text() == "old"
    assert sorted(p.name for p in path.parent.iterdir()) == [mark_of(path).name, path.name]
    with pytest.raises(StaleFence):
        FileGuard(path).replace("late", 1)
    FileGuard(path).replace("new", 2)


def test_content_that_the_disk_did_not_confirm_is_an_unknown_outcome(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileGuard(path).replace("old", 1)

    def fail(_: str) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    monkeypatch.setattr(guard, "sync_folder", fail)
    with pytest.raises(OutcomeUnknown):
        FileGuard(path).replace("new", 1)
    assert path.read_text() == "new"


@pytest.mark.parametrize("torn", [b"", b"\x00" * 100, b"0123abcd {", b"\xff" * sidecar.SLOT])
def test_a_torn_raise_leaves_the_mark_of_before(path: Path, torn: bytes) -> None:
    guard = FileGuard(path)
    guard.enter(1)
    guard.enter(2)
    before = mark_of(path).read_bytes()
    guard.enter(3)
    after = mark_of(path).read_bytes()
    start = 0 if before[: sidecar.SLOT] != after[: sidecar.SLOT] else sidecar.SLOT
    assert before[start : start + sidecar.SLOT] != after[start : start + sidecar.SLOT]
    slot = torn + after[start + len(torn) : start + sidecar.SLOT]
    if not torn:
        slot = b"\x00" * sidecar.SLOT
    mark_of(path).write_bytes(after[:start] + slot + after[start + sidecar.SLOT :])
    assert guard.mark() == 2
    with pytest.raises(StaleFence):
        guard.enter(1)
    guard.enter(2)
    guard.enter(4)
    assert guard.mark() == 4


def test_a_first_raise_that_was_torn_counts_for_nothing(path: Path) -> None:
    guard = FileGuard(path)
    guard.enter(5)
    whole = mark_of(path).read_bytes()
    mark_of(path).write_bytes(whole[: sidecar.SLOT + 20])
    assert guard.mark() == 0
    guard.enter(1)


def test_a_damaged_mark_refuses_everybody_until_it_is_reset(path: Path) -> None:
    guard = FileGuard(path)
    guard.replace("old", 1)
    guard.enter(2)
    mark_of(path).write_bytes(b"something else" * 1000)
    with pytest.raises(Misconfigured, match="damaged"):
        guard.replace("new", 3)
    assert path.read_text() == "old"
    guard.reset()
    guard.replace("new", 3)


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EACCES, Denied), (errno.EROFS, Denied), (errno.EIO, Unavailable)]
)
def test_a_mark_that_cannot_be_opened_is_an_engine_error_and_nothing_happens(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    path.write_text("old")

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(kind):
            FileGuard(path).replace("new", 1)
    assert path.read_text() == "old"


def test_a_mark_that_cannot_be_written_is_an_engine_error_and_nothing_happens(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FileGuard(path).replace("old", 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing(errno.ENOSPC, "no space left"))
        with pytest.raises(Unavailable, match="space"):
            FileGuard(path).replace("new", 2)
    assert path.read_text() == "old"
    assert FileGuard(path).mark() == 1
