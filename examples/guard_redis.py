"""A guard for keys of Redis: a holder that froze is refused by the script that writes.

It needs a Redis: ``REDIS=redis://127.0.0.1:6379/0 python examples/guard_redis.py``. The locks are
in SQLite here, to show that they may be anywhere.
"""

from __future__ import annotations

import logging
import os
import time

import fencelock
from fencelock.guards.redis import RedisGuard

KEY = "stock:42"
SELL = "return redis.call('DECRBY', KEYS[1], ARGV[1])"


def main(url: str) -> None:
    import redis

    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    with redis.Redis.from_url(url) as store, fencelock.connect("sqlite:///locks.db") as client:
        guard = RedisGuard(store)
        store.set(KEY, 10)

        # Not renewed, so it ends as if this process had been frozen. A real one is: see `make run`.
        first = client.lock("stock:42", ttl=0.2, renew=False).acquire()
        seen = int(guard.get(KEY, first))  # raises the mark, and reads
        print(f"the first holder reads {seen}, and freezes")
        time.sleep(0.3)

        with client.lock("stock:42", timeout=5) as second:
            left = guard.eval(SELL, [KEY], [3], second)  # a script of your own, behind the check
            print(f"the second holder sells 3, {left} are left")

        try:
            # It wakes up and writes. The lease itself would say that it is over.
            guard.set(KEY, seen - 1, first.fence, name=first.name)
        except fencelock.StaleFence as error:
            print(f"the first holder is refused: {error}")
        assert store.get(KEY) == b"7"


if __name__ == "__main__":
    if "REDIS" in os.environ:
        main(os.environ["REDIS"])
    else:
        print("set REDIS to the URL of a server")
