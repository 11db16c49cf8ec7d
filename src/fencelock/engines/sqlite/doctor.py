"""Diagnose a lock file: what around it would break a promise, for ``fencelock doctor``."""

from __future__ import annotations

import os
import sqlite3
import stat

from ...model import Finding
from ..doctor import AHEAD_MAX_S
from .wire.inbox import Inbox, InboxFolder
from .wire.mounts import file_system, mounts

ROOM_MIN_BYTES = 50 * 2**20
VOLATILE = {"tmpfs", "ramfs", "overlay"}


def diagnose(path: str, journal_mode: str, ahead_us: int) -> list[Finding]:
    """Return all findings about one file; ``ahead_us`` is the last fence minus the wall clock."""
    return [
        *_file_system(path),
        _room(path),
        *_rights(path),
        _journal(journal_mode),
        _push(path),
        *_clock(ahead_us),
        Finding("ok", "SQLite", f"version {sqlite3.sqlite_version}"),
    ]


def _file_system(path: str) -> list[Finding]:
    kind, point = file_system(path, mounts())
    if not kind:
        advice = "see that it is a local file system: SQLite cannot lock safely on others"
        return [Finding("note", "file system", "its kind is not known here", advice)]
    found = [Finding("ok", "file system", f"{kind} at {point}")]
    if kind in VOLATILE:
        advice = "let all processes see one folder that lasts: a bind mount or a volume"
        text = f"{kind} is often private to a container or gone after a restart"
        found.append(Finding("note", "file system", text, advice))
    return found


def _room(path: str) -> Finding:
    room = os.statvfs(os.path.dirname(path))
    free = room.f_bavail * room.f_frsize
    if free < ROOM_MIN_BYTES:
        advice = "make room: on a full disk no lock is granted or renewed"
        return Finding("warning", "room", f"{free / 2**20:.0f} MiB are free", advice)
    return Finding("ok", "room", f"{free / 2**30:.1f} GiB are free")


def _rights(path: str) -> list[Finding]:
    found: list[Finding] = []
    for node, what in ((path, "the file"), (os.path.dirname(path), "its folder")):
        mode = os.stat(node).st_mode
        if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            text = f"{what} is writable for everybody ({stat.filemode(mode)})"
            advice = f"chmod o-w {node}: whoever can write it can take any lock"
            found.append(Finding("warning", "rights", text, advice))
    return found or [Finding("ok", "rights", "not everybody can write the file")]


def _journal(mode: str) -> Finding:
    if mode != "wal":
        advice = "another program changed it; move the file away and let fencelock make a new one"
        return Finding("problem", "journal", f"the journal mode is {mode}, not WAL", advice)
    return Finding("ok", "journal", "WAL")


def _push(path: str) -> Finding:
    folder = InboxFolder(path)
    inbox = Inbox(folder, f"doctor-{os.getpid()}", True)
    try:
        if inbox.silent:
            advice = "let the folder of the file be writable; waiters poll until then"
            return Finding("warning", "push", "no sockets can be made beside the file", advice)
        return Finding("ok", "push", "waiters are woken by sockets beside the file")
    finally:
        inbox.close()
        folder.close()


def _clock(ahead_us: int) -> list[Finding]:
    ahead = ahead_us / 1e6
    if ahead <= AHEAD_MAX_S:
        return []
    text = f"fences are {ahead:.0f} s ahead of the wall clock, which was set back at some time"
    return [Finding("note", "clock", text, "nothing to do: fences go on growing from there")]
