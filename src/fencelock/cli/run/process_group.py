"""Process groups: is one alive, how to signal one, whose pipe is it."""

from __future__ import annotations

import os
import signal


def alive(group: int) -> bool:
    """Whether anybody is left in a group."""
    if group <= 0:
        return False
    try:
        os.killpg(group, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def send(group: int, number: int) -> None:
    """Signal a whole group. One that is stopped is woken, or it could not act on it."""
    if group <= 0:
        return
    try:
        os.killpg(group, number)
        if number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            os.killpg(group, signal.SIGCONT)
    except OSError:
        pass  # it has ended


def find_by_pipe(inode: int) -> int:
    """The group of whoever has a pipe open, or 0. Only Linux can tell."""
    wanted = f"pipe:[{inode}]"
    for pid in _pids():
        folder = f"/proc/{pid}/fd"
        try:
            if any(os.readlink(f"{folder}/{entry}") == wanted for entry in os.listdir(folder)):
                return os.getpgid(pid)
        except OSError:
            continue  # it has ended, or is not ours
    return 0


def _pids() -> list[int]:
    try:
        found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [pid for pid in found if pid != os.getpid()]
