"""One process of the demo: sells seats to its customers, one at a time, under the lock.

``sell_seat`` is the part to read.  Everything around it tells the parent process what happens.  ``story.py`` starts
this module as ``python -m fencelock.demo.worker``.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import fencelock

from .store import SeatStore
from .words import LOCK, TTL_S, Message

NAMES = (
    "Ada", "Alan", "Barbara", "Dennis", "Donald", "Edsger", "Frances", "Grace", "Hedy", "Jim", "Joan", "John",
    "Katherine", "Ken", "Leslie", "Lynn", "Margaret", "Nancy", "Niklaus", "Radia", "Robin", "Shafi", "Sophie", "Tony",
)  # fmt: skip

Outcome = Literal["sold", "again", "none left"]


def sell_seat(lock: fencelock.Lock, store: SeatStore, customer: str) -> Outcome:
    """Sell the first free seat to a customer, if there is one and the lease lasts."""
    outcome: Outcome = "again"
    lease = lock.acquire()
    try:
        with lease:
            seat = store.find_free(lease.fence)
            if seat is None:
                return "none left"
            lease.check()  # ours now; but what if this process stops on the next line?
            tell(Message("read", seat, customer, lease.fence))
            wait_for_parent()
            store.sell(seat, customer, lease.fence)
            outcome = "sold"
            tell(Message("sold", seat, customer, lease.fence))
    except fencelock.StaleFence as stale:
        tell(Message("refused", seat, customer, stale.offered, stale.highest))
    except fencelock.LeaseLost:
        pass  # told below, for it may be lost as well when the store was the first to say no
    if lease.lost:
        tell(Message("lost", fence=lease.fence, reason=lease.reason or ""))
    return outcome


def tell(message: Message) -> None:
    print(message.to_line(), flush=True)


def wait_for_parent() -> None:
    """Wait for a line from the parent; end when the parent is gone."""
    if not sys.stdin.readline():
        sys.exit(0)


def customer_name(number: int) -> str:
    """A name that no other number has."""
    turn, index = divmod(number, len(NAMES))
    return NAMES[index] if turn == 0 else f"{NAMES[index]} {turn + 1}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fencelock.demo.worker", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument(
        "--number", type=int, required=True, help="the number of the first customer"
    )
    parser.add_argument("--step", type=int, required=True, help="from one customer to the next")
    parser.add_argument(
        "--timeout", type=float, required=True, help="the longest wait for the lock"
    )
    parser.add_argument("--unsafe", action="store_true")
    options = parser.parse_args()

    url = f"sqlite:///{quote(str(options.folder / 'locks.db'))}"
    store = SeatStore(options.folder / "seats.db", options.name, unsafe=options.unsafe)
    with closing(store), fencelock.connect(url) as client:
        lock = client.lock(LOCK, ttl=TTL_S, timeout=options.timeout)
        tell(Message("ready"))
        wait_for_parent()
        outcome: Outcome = "sold"
        for number in count(options.number, options.step):
            while (outcome := sell_seat(lock, store, customer_name(number))) == "again":
                pass  # the customer still wants a seat
            if outcome == "none left":
                break
        tell(Message("done"))


if __name__ == "__main__":
    main()
