"""One process of the demo: sells seats to its customers, one after the other, under the lock.

``sell_seat`` is the part to read; what surrounds it tells the parent process what happens.
``crew.py`` starts this module as ``python -m fencelock.demo.worker``.
"""

from __future__ import annotations

import argparse
import ctypes
import signal
import sys
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import fencelock

from .store import SeatStore
from .words import LOCK, TTL_S, Message

Outcome = Literal["sold", "not sold", "none left"]


def sell_seat(lock: fencelock.Lock, store: SeatStore, customer: str) -> Outcome:
    """Sell the first free seat to a customer, if there is one and our lease lasts."""
    outcome: Outcome = "not sold"
    seat: str | None = ""
    lease = lock.acquire()
    try:
        with lease:
            seat = store.find_free(lease.fence)
            if seat is None:
                return "none left"
            lease.check()  # the lease is ours: but what if we are stopped right here?
            tell(Message("read", seat, customer, lease.fence))
            wait_for_parent()
            store.sell(seat, customer, lease.fence)
            outcome = "sold"
            tell(Message("sold", seat, customer, lease.fence))
    except fencelock.StaleFence as stale:
        tell(Message("refused", seat or "", customer, stale.offered, stale.highest))
    except fencelock.LeaseLost:
        pass  # told below: it is lost as well when the store was the first to say so
    if lease.lost:
        tell(Message("lost", fence=lease.fence, reason=lease.reason or ""))
    return outcome


def tell(message: Message) -> None:
    print(message.to_line(), flush=True)


def wait_for_parent() -> None:
    """Wait for a line from the parent; end if the parent is gone."""
    if not sys.stdin.readline():
        sys.exit(0)


def end_with_parent() -> None:
    """Have the kernel end us with our parent: while we are frozen we cannot see that it is gone."""
    if sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def main() -> None:
    end_with_parent()
    parser = argparse.ArgumentParser(prog="python -m fencelock.demo.worker")
    add = parser.add_argument
    add("--folder", type=Path, required=True)
    add("--name", required=True)
    add("--customer", type=int, required=True, help="the number of the first customer")
    add("--step", type=int, required=True, help="from one customer to the next")
    add("--timeout", type=float, required=True, help="the longest wait for the lock, in seconds")
    add("--unsafe", action="store_true", help="the store does not check the fence")
    options = parser.parse_args()

    url = f"sqlite:///{quote(str(options.folder / 'locks.db'))}"
    store = SeatStore(options.folder / "seats.db", options.name, unsafe=options.unsafe)
    with closing(store), fencelock.connect(url) as client:
        lock = client.lock(LOCK, ttl=TTL_S, timeout=options.timeout)
        tell(Message("ready"))
        wait_for_parent()
        for number in count(options.customer, options.step):
            outcome: Outcome = "not sold"
            while outcome == "not sold":
                outcome = sell_seat(lock, store, f"customer {number + 1}")
            if outcome == "none left":
                break
        tell(Message("done"))


if __name__ == "__main__":
    main()
