"""Files that are no lock file, or one that is damaged, newer or another program's."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import fencelock
from fencelock.engines.sqlite.wire.file import SCHEMA_VERSION


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
