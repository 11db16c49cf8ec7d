"""What this process has used so far: processor time and memory."""

from __future__ import annotations

import os
import resource
import sys


def cpu_s() -> float:
    """Seconds of processor time, those of the system on our behalf included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_bytes() -> int:
    """Memory in use now; where the system does not tell, the highest so far."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return highest if sys.platform == "darwin" else highest * 1024
