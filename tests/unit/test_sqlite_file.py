"""Files that the embedded engine must not touch, and files that it has to cope with.

Each refusal is of our tree, says what to do, and leaves every byte in the folder as it was.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fencelock
from fencelock import EngineError, Misconfigured
from fencelock.engines.sqlite import handle
from fencelock.engines.sqlite.file import APPLICATION_ID, SCHEMA_VERSION


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder with a digest of its bytes and its mode."""
    return {
        str(path.relative_to(folder)): f"{path.lstat().st_mode:o} "
        + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in sorted(folder.rglob("*"))
    }


def text_file(path: Path) -> None:
    path.write_text("dear diary, this is no database\n" * 100)


def short_file(path: Path) -> None:
    path.write_bytes(b"x")


def almost_a_database(path: Path) -> None:
    path.write_bytes(b"SQLite format 2\0" + bytes(4096))


def head_of_a_database(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE locks (name TEXT)")
    connection.execute("INSERT INTO locks VALUES ('of another program')")
    connection.commit()
    connection.close()


def foreign_database_with_a_name(path: Path) -> None:
    foreign_database(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id=252006673")
    connection.close()


def foreign_database_in_wal_mode(path: Path) -> None:
    """As its program left it when it was killed: the newest pages are in the WAL."""
    foreign_database(path)
    code = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1])\n"
        "c.execute('PRAGMA journal_mode=WAL')\n"
        "c.execute(\"INSERT INTO locks VALUES ('in the WAL')\")\n"
        "c.commit()\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def ours(path: Path) -> None:
    with fencelock.connect(url_of(path)) as client, client.lock("seat", ttl=600):
        pass


def newer_schema(path: Path) -> None:
    ours(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    connection.close()


def truncated(path: Path) -> None:
    ours(path)
    os.truncate(path, 4096)


def cut_in_a_page(path: Path) -> None:
    ours(path)
    os.truncate(path, path.stat().st_size - 1000)


def damaged(path: Path) -> None:
    ours(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


def directory(path: Path) -> None:
    path.mkdir()


def link_to_a_directory(path: Path) -> None:
    path.with_name("folder").mkdir()
    path.symlink_to("folder")


def link_into_nowhere(path: Path) -> None:
    path.symlink_to("no/such/folder/locks.db")


def link_in_a_circle(path: Path) -> None:
    path.symlink_to(path.name)


def named_pipe(path: Path) -> None:
    os.mkfifo(path)


def socket(path: Path) -> None:
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX) as end:
        end.bind(str(path))


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "text": (text_file, "is no database and was left untouched: choose another path"),
    "one byte": (short_file, "is no database and was left untouched: choose another path"),
    "almost": (almost_a_database, "is no database and was left untouched: choose another path"),
    "head only": (head_of_a_database, "was left untouched: choose another path"),
    "foreign": (foreign_database, "is another program's database and was left untouched"),
    "foreign, named": (foreign_database_with_a_name, "is another program's database"),
    "foreign, in WAL mode": (foreign_database_in_wal_mode, "is another program's database"),
    "newer schema": (newer_schema, r"has schema version \d+ .* use the same release"),
    "truncated": (truncated, "is damaged .* and was left as it is: move it away"),
    "cut in a page": (cut_in_a_page, "is damaged .* and was left as it is: move it away"),
    "damaged": (damaged, "is damaged .* and was left as it is: move it away"),
    "directory": (directory, "directory"),
    "link to a directory": (link_to_a_directory, "directory"),
    "link into nowhere": (link_into_nowhere, "does not exist: make it, or choose another path"),
    "link in a circle": (link_in_a_circle, "locks.db"),
    "named pipe": (named_pipe, "no .*file"),
    "socket": (socket, "locks.db"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_lock_file_is_refused_and_left_as_it_is(what: str, tmp_path: Path) -> None:
    """The error says what to do, and not a byte has changed."""
    make, words = REFUSED[what]
    path = tmp_path / "locks.db"
    make(path)
    before = fingerprint(tmp_path)
    with pytest.raises(Misconfigured, match=words) as caught:
        fencelock.connect(url_of(path))
    assert not caught.value.may_have_happened
    assert fingerprint(tmp_path) == before


def test_a_refusal_can_be_repeated(tmp_path: Path) -> None:
    """The second try says the same as the first: nothing was half opened."""
    path = tmp_path / "locks.db"
    foreign_database(path)
    messages = set()
    for _ in range(3):
        with pytest.raises(Misconfigured) as caught:
            fencelock.connect(url_of(path))
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    """A typo in a path must not leave folders behind."""
    with pytest.raises(Misconfigured, match=r"the folder .*/no does not exist: make it, or choose"):
        fencelock.connect(url_of(tmp_path / "no" / "locks.db"))
    assert fingerprint(tmp_path) == {}


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite://locks.db", "sqlite:///:memory:", "sqlite://h/x.db"]
)
def test_a_url_without_a_file_is_told_how_to_name_one(url: str) -> None:
    """Two slashes instead of three is the common mistake."""
    with pytest.raises(Misconfigured, match=r"names no file: write sqlite:///relative\.db"):
        fencelock.connect(url)


def test_a_nul_in_a_path_is_refused() -> None:
    """Not a ValueError of the operating system's."""
    with pytest.raises(Misconfigured, match="NUL"):
        fencelock.connect("sqlite:///locks%00.db")


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """The operating system says so, in our tree."""
    with pytest.raises(EngineError):
        fencelock.connect(url_of(tmp_path / ("x" * 300)))


@pytest.mark.parametrize(
    "name", ["a b.db", "é.db", "50%25.db", "a%23b.db", "a%3Fb.db", "a+b.db", "'"]
)
def test_a_path_may_have_any_character(name: str, tmp_path: Path) -> None:
    """Percent-encoding as in every URL; SQLite's own URI syntax is not in the way."""
    from urllib.parse import unquote

    with fencelock.connect(f"sqlite:///{tmp_path}/{name}") as client:
        with client.lock("seat"):
            assert tmp_path.joinpath(unquote(name)).is_file()


def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    """What ``touch`` and ``tempfile`` make."""
    path = tmp_path / "locks.db"
    path.touch()
    with fencelock.connect(url_of(path)) as client, client.lock("seat") as lease:
        lease.check()


def test_a_deep_folder_still_has_push(tmp_path: Path) -> None:
    """The path of a socket is short by nature; that of a database is not."""
    folder = tmp_path.joinpath(*["a folder with a long name"] * 6)
    folder.mkdir(parents=True)
    with fencelock.connect(url_of(folder / "locks.db")) as client:
        holder = client.lock("seat").acquire()
        assert client.lock("seat").try_acquire(timeout=0.01) is None
        holder.release()


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    """``file locks.db`` shows the application id."""
    path = tmp_path / "locks.db"
    ours(path)
    assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION_ID == 0x464E434C


@pytest.mark.parametrize("instead", ["nothing", "a file", "a circle of links"])
def test_a_folder_that_goes_away_is_said_in_our_words(
    instead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the client is connected; when the folder is back, all is well."""
    monkeypatch.setattr(handle, "TRUST_S", 0.0)
    folder = tmp_path / "folder"
    folder.mkdir()
    with fencelock.connect(url_of(folder / "locks.db")) as client:
        held = client.lock("held", ttl=600).acquire()
        folder.rename(tmp_path / "away")
        if instead == "a file":
            folder.touch()
        elif instead == "a circle of links":
            folder.symlink_to("folder")
        for call in (client.lock("seat").acquire, held.renew, client.scan):
            with pytest.raises(EngineError, match=str(folder)):
                call()
        held.check()
        if instead != "nothing":
            folder.unlink()
        (tmp_path / "away").rename(folder)
        held.renew()
        client.lock("seat").acquire().release()
        assert held.release() is True


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
