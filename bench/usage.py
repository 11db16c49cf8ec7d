"""What this process has used so far, and what others have taken from the machine."""

from __future__ import annotations

import os
import resource
import sys
from typing import NamedTuple

ESTABLISHED = "01"


def cpu_s() -> float:
    """Seconds of processor time, those of the system on our behalf included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Ticks(NamedTuple):
    """Processor time of the whole machine, in units of its own."""

    all: int
    stolen: int
    """Given to other machines on the same host."""


def ticks() -> Ticks | None:
    """What the machine has spent so far, where it tells."""
    try:
        with open("/proc/stat") as file:
            spent = [int(word) for word in file.readline().split()[1:9]]
    except OSError:
        return None
    return Ticks(sum(spent), spent[7]) if len(spent) == 8 else None


def stolen(before: Ticks | None, after: Ticks | None) -> float | None:
    """The share of the processors that other machines on the host had meanwhile."""
    if before is None or after is None or after.all <= before.all:
        return None
    return (after.stolen - before.stolen) / (after.all - before.all)


def resident_bytes(process: int = 0) -> int:
    """Memory that we or another process use now; where the system does not tell, our highest."""
    try:
        with open(f"/proc/{process or 'self'}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return highest if sys.platform == "darwin" else highest * 1024


def connections(port: int) -> int:
    """How many connections to a port of this machine there are, where it tells."""
    try:
        with open("/proc/net/tcp") as file:
            rows = [line.split() for line in file][1:]
    except OSError:
        return 0
    return sum(row[1].endswith(f":{port:04X}") and row[3] == ESTABLISHED for row in rows)


def cores() -> list[int]:
    """The cores that this process may use, where the system tells."""
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


def pin(process: int, core: int) -> None:
    """Have all threads of a process run on one core, where the system can; 0 is this process."""
    if sys.platform == "linux":
        for thread in os.listdir(f"/proc/{process or 'self'}/task"):
            os.sched_setaffinity(int(thread), {core})
