"""A guard for nodes of ZooKeeper, over the kazoo client that a program has.

It needs a ZooKeeper: ``ZOOKEEPER=127.0.0.1:2181 python examples/guard_zookeeper.py``.
"""

from __future__ import annotations

import logging
import os
import time

import fencelock
from fencelock.guards.zookeeper import ZooKeeperGuard

NODE = "/example/limit"


def main(hosts: str) -> None:
    from kazoo.client import KazooClient

    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    zookeeper = KazooClient(hosts)
    zookeeper.start()
    zookeeper.ensure_path(NODE)
    guard = ZooKeeperGuard(zookeeper)
    with fencelock.connect("sqlite:///locks.db") as client:
        # Not renewed, so it ends as if this process had been frozen. A real one is: see `make run`.
        first = client.lock("limit", ttl=0.2, renew=False).acquire()
        seen = int(guard.enter(first, NODE)[NODE] or 0)  # raises the mark, and reads
        print(f"the first holder reads {seen}, and freezes")
        time.sleep(0.3)

        with client.lock("limit", timeout=5) as second:
            limit = int(guard.enter(second, NODE)[NODE] or 0)
            guard.set(NODE, b"%d" % (limit + 1), second)
            print(f"the second holder writes {limit + 1}")

        try:
            # It wakes up and writes. The lease itself would say that it is over.
            guard.set(NODE, b"%d" % (seen + 1), first.fence, name=first.name)
        except fencelock.StaleFence as error:
            print(f"the first holder is refused: {error}")
    zookeeper.stop()
    zookeeper.close()


if __name__ == "__main__":
    if "ZOOKEEPER" in os.environ:
        main(os.environ["ZOOKEEPER"])
    else:
        print("set ZOOKEEPER to the address of a server, such as 127.0.0.1:2181")
