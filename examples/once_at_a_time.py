"""A job that must not overlap with itself, however often cron or a person starts it.

``job()`` is what a script of yours would do. ``main()`` starts it three times at once to show it:
one works, the others find that it is running and go.
"""

from __future__ import annotations

import multiprocessing
import time

import fencelock

URL = "sqlite:///jobs.db"
NAME = "report"
STEPS = 5


def job() -> None:
    with fencelock.connect(URL) as client:
        # The ttl is how long a killed job blocks the next one. It is not how long the job may take:
        # the lease is renewed until the work is done. max_hold ends a job that hangs.
        lock = client.lock(NAME, ttl=20, max_hold=3600, meta={"job": "report"})
        lease = lock.try_acquire()
        if lease is None:
            for holder in client.holders(NAME):
                pid, age = holder.meta["pid"], holder.age
                print(
                    f"already running in process {pid} for {age:.1f} s: nothing to do", flush=True
                )
            return
        with lease:
            work(lease)


def work(lease: fencelock.Lease) -> None:
    for step in range(1, STEPS + 1):
        lease.check()  # between steps: stop here rather than work without the lock
        time.sleep(0.1)
        print(f"step {step} of {STEPS}", flush=True)


def main() -> None:
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=job) for _ in range(3)]
    for process in jobs:
        process.start()
    for process in jobs:
        process.join()


if __name__ == "__main__":
    main()
