"""A guard for keys of etcd: a holder that froze is refused by the transaction itself.

It needs an etcd: ``ETCD=http://127.0.0.1:2379 python examples/guard_etcd.py``. The locks are in
SQLite here, to show that they may be anywhere. With both in one etcd, see fencelock.etcd.compare.
"""

from __future__ import annotations

import logging
import os
import time

import fencelock
from fencelock.guards.etcd import EtcdGuard

KEY = "example/limit"


def main(endpoint: str) -> None:
    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    guard = EtcdGuard(endpoint)
    with fencelock.connect("sqlite:///locks.db") as client:
        # Not renewed, so it ends as if this process had been frozen. A real one is: see `make run`.
        first = client.lock("limit", ttl=0.2, renew=False).acquire()
        seen = int(guard.enter(first, KEY)[KEY] or 0)  # raises the mark, and reads
        print(f"the first holder reads {seen}, and freezes")
        time.sleep(0.3)

        with client.lock("limit", timeout=5) as second:
            limit = int(guard.enter(second, KEY)[KEY] or 0)
            guard.put(KEY, str(limit + 1), second)
            print(f"the second holder writes {limit + 1}")

        try:
            # It wakes up and writes. The lease itself would say that it is over.
            guard.put(KEY, str(seen + 1), first.fence, name=first.name)
        except fencelock.StaleFence as error:
            print(f"the first holder is refused: {error}")


if __name__ == "__main__":
    if "ETCD" in os.environ:
        main(os.environ["ETCD"])
    else:
        print("set ETCD to the address of a member, such as http://127.0.0.1:2379")
