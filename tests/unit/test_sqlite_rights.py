"""Files and folders of the embedded engine that another user may not write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sqlite_files import fingerprint, ours, url_of


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    folder = Path(tempfile.mkdtemp(prefix="fencelock-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


NOBODY = 65534
# Everything is imported before the rights are given up: the interpreter itself may be out of reach.
AS_NOBODY = f"""
import os, sys, tempfile
import fencelock
with tempfile.TemporaryDirectory() as folder:
    with fencelock.connect(f"sqlite:///{{folder}}/x") as client:
        client.lock("warm").acquire().release()
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
try:
    with fencelock.connect(sys.argv[1]) as client:
        client.lock("seat").acquire(timeout=0).release()
except fencelock.FencelockError as error:
    print(type(error).__name__, error)
else:
    print("granted")
"""


def as_nobody(path: Path) -> str:
    """What an ordinary user is told who tries to use a file of ours."""
    run = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, url_of(path)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="becoming another user needs root"
)


@needs_root
def test_a_folder_that_cannot_be_written_is_refused(open_folder: Path) -> None:
    """There is no file yet, and none can be made."""
    told = as_nobody(open_folder / "locks.db")
    assert "cannot be" in told
    assert str(open_folder) in told
    assert f"uid {NOBODY}" in told
    assert fingerprint(open_folder) == {}


@needs_root
@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_a_file_that_cannot_be_written_is_refused(open_folder: Path, mode: int) -> None:
    """Read-only, or not even readable: the other user is told, and the file is as it was."""
    path = open_folder / "locks.db"
    ours(path)
    path.chmod(mode)
    before = fingerprint(open_folder)
    told = as_nobody(path)
    assert "cannot be" in told
    assert str(path) in told
    assert fingerprint(open_folder) == before


@needs_root
def test_a_writable_file_in_a_folder_that_is_not_is_refused(open_folder: Path) -> None:
    """The WAL lies beside the file, so the folder has to be writable as well."""
    path = open_folder / "locks.db"
    ours(path)
    path.chmod(0o666)
    before = fingerprint(open_folder)
    told = as_nobody(path)
    assert "cannot be" in told
    assert "folder" in told
    assert fingerprint(open_folder) == before


@needs_root
def test_a_shared_folder_serves_all_users(open_folder: Path) -> None:
    """With rights on file and folder, users of one machine share locks."""
    open_folder.chmod(0o777)
    path = open_folder / "locks.db"
    ours(path)
    path.chmod(0o666)
    assert as_nobody(path) == "granted\n"
