"""MySQL is fetched for the tests once, whole or not at all.

A stand-in for apt says what it would have been given; `make servers` runs the real one.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.servers import mysql_program
from tests.servers.mysql_program import CannotFetch, fetch, find, version

APT = """\
case "$*" in
  *update*) ;;
  *install*)
    echo "$*" >>"$LOG"
    cache="$(sed -n 's/^Dir::Cache "\\(.*\\)";/\\1/p' "$3")"
    touch "$cache/archives/a.deb" ;;
esac
"""
UNPACK = """\
loader="$3/usr/lib/any-linux-gnu/ld-linux.so.2"
mkdir -p "$(dirname "$loader")" "$3/usr/sbin"
printf '#!/bin/sh\\necho "mysqld  Ver 9.9.9-1 for Linux"\\n' >"$loader"
chmod +x "$loader"
"""


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that come before the machine's, which has no MySQL of its own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.setattr(mysql_program, "mirrors", lambda: ["http://mirror.invalid/debian"])
    program(folder, "mysqld", "exit 1")
    program(folder, "dpkg", "echo any")
    program(folder, "dpkg-deb", UNPACK)
    program(folder, "apt-get", APT)
    return folder


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def fetches(folder: Path) -> int:
    log = folder.parent / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_it_is_fetched_once_however_many_ask(bin: Path) -> None:
    assert find() is None
    askers = [threading.Thread(target=fetch) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(60)
    fetch()
    found = find()
    assert found is not None
    assert version(found) == "9.9.9-1"
    assert fetches(bin) == 1
    assert {path.name for path in mysql_program.cache().iterdir()} == {"fetching", "mysql-9.9.9-1"}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("apt-get", "echo 'no network' >&2; exit 100", "no network"),
        ("dpkg-deb", "mkdir -p $3/usr/sbin; exit 2", "dpkg-deb"),
        ("dpkg-deb", UNPACK.replace("echo", "exit 1; echo"), "does not run here"),
    ],
)
def test_what_failed_half_way_is_not_used(bin: Path, name: str, text: str, why: str) -> None:
    program(bin, name, text)
    with pytest.raises(CannotFetch, match=why):
        fetch()
    assert find() is None
    assert [path.name for path in mysql_program.cache().iterdir()] == ["fetching"]


def test_what_a_killed_one_has_left_is_removed(bin: Path) -> None:
    left = mysql_program.cache() / "new-of-a-killed-one"
    (left / "root/usr/sbin").mkdir(parents=True)
    assert find() is None
    fetch()
    assert not left.exists()


def test_it_is_bounded_in_time(bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_program, "FETCH_S", 0.0)
    program(bin, "apt-get", "exec sleep 30")
    with pytest.raises(CannotFetch, match="took longer"):
        fetch()


def test_where_it_cannot_be_had_that_is_no_failure(
    bin: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mysql_program, "mirrors", list)
    assert mysql_program.main() == 0
    assert "its tests will be skipped: apt names no mirror" in capsys.readouterr().out


def test_an_installed_one_is_used_unless_it_is_mariadb(bin: Path) -> None:
    program(bin, "mysqld", "echo 'mysqld  Ver 8.0.41-0ubuntu0 for Linux'")
    assert find() == [str(bin / "mysqld")]
    program(bin, "mysqld", "echo 'mysqld  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu'")
    assert find() is None
