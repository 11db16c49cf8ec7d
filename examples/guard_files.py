"""A guard for a file: it is replaced whole, and a holder that comes too late is refused."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import fencelock
from fencelock.guards.files import FileGuard, guarded_open, guarded_replace

REPORT = Path("report.txt")


def main() -> None:
    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    with fencelock.connect("sqlite:///locks.db") as client:
        # Not renewed, so it ends as if this process had been frozen. A real one is: see `make run`.
        first = client.lock("report", ttl=0.2, renew=False).acquire()
        guarded_replace(REPORT, "begun by the first holder\n", first)
        print("the first holder begins the report, and freezes")
        time.sleep(0.3)

        with client.lock("report", timeout=5) as second:
            with guarded_open(REPORT, "r", second) as file:  # raises the mark, and reads
                text = file.read()
            guarded_replace(REPORT, text + "ended by the second holder\n", second)

        try:
            # It wakes up and writes. The lease itself would say that it is over.
            guarded_replace(REPORT, "all by the first holder\n", first.fence, name=first.name)
        except fencelock.StaleFence as error:
            print(f"the first holder is refused: {error}")
        assert FileGuard(REPORT).mark() == second.fence
        print(REPORT.read_text(), end="")


if __name__ == "__main__":
    main()
