"""Files that the embedded engine must not touch, and files that it has to cope with.

Each refusal is of our tree, says what to do, and leaves every byte in the folder as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import fencelock
from fencelock import EngineError, Misconfigured
from fencelock.engines.sqlite.wire import database
from fencelock.engines.sqlite.wire.file import APPLICATION_ID
from tests.unit.sqlite_files import (
    almost_a_database,
    cut_in_a_page,
    damaged,
    directory,
    fingerprint,
    foreign_database,
    foreign_database_in_wal_mode,
    foreign_database_with_a_name,
    head_of_a_database,
    link_in_a_circle,
    link_into_nowhere,
    link_to_a_directory,
    named_pipe,
    newer_schema,
    ours,
    short_file,
    socket,
    text_file,
    truncated,
    url_of,
)

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
        fencelock.connect(url_of(path)).open()
    assert not caught.value.may_have_happened
    assert fingerprint(tmp_path) == before


def test_a_refusal_can_be_repeated(tmp_path: Path) -> None:
    """The second try says the same as the first: nothing was half opened."""
    path = tmp_path / "locks.db"
    foreign_database(path)
    messages = set()
    for _ in range(3):
        with pytest.raises(Misconfigured) as caught:
            fencelock.connect(url_of(path)).open()
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    """A typo in a path must not leave folders behind."""
    with pytest.raises(Misconfigured, match=r"the folder .*/no does not exist: make it, or choose"):
        fencelock.connect(url_of(tmp_path / "no" / "locks.db")).open()
    assert fingerprint(tmp_path) == {}


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///", "sqlite://locks.db", "sqlite:///:memory:", "sqlite://h/x.db"]
)
def test_a_url_without_a_file_is_told_how_to_name_one(url: str) -> None:
    """Two slashes instead of three is the common mistake."""
    with pytest.raises(Misconfigured, match=r"names no file: write sqlite:///relative\.db"):
        fencelock.connect(url).open()


def test_a_nul_in_a_path_is_refused() -> None:
    """Not a ValueError of the operating system's."""
    with pytest.raises(Misconfigured, match="NUL"):
        fencelock.connect("sqlite:///locks%00.db").open()


def test_a_path_that_is_too_long_is_refused(tmp_path: Path) -> None:
    """The operating system says so, in our tree."""
    with pytest.raises(EngineError):
        fencelock.connect(url_of(tmp_path / ("x" * 300))).open()


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
    monkeypatch.setattr(database, "TRUST_S", 0.0)
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_with_another_working_folder_meets_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a daemon changes to the root: a relative path is that of the process that connected."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with fencelock.connect("sqlite:///locks.db") as client, client.lock("seat", ttl=60):
        child = os.fork()
        if not child:
            os.chdir(tmp_path / "elsewhere")
            got = client.lock("seat").try_acquire()
            os._exit(int(got is not None))
        assert os.waitpid(child, 0)[1] == 0, "the child was granted what its parent holds"


def test_a_client_that_could_not_open_stays_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try makes a new engine, and may be made in another working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    text_file(tmp_path / "locks.db")
    client = fencelock.connect("sqlite:///locks.db")
    with pytest.raises(Misconfigured, match="no database"):
        client.open()
    os.chdir(tmp_path / "elsewhere")
    with pytest.raises(Misconfigured, match="no database"):
        client.open()
    client.close()
