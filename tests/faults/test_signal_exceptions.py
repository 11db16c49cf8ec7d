"""Exceptions that a signal handler raises in the midst of a call: a caught Ctrl-C, an alarm, the
soft time limit of a task queue.
"""

from __future__ import annotations

import pytest

from tests.faults.crew import Crew

CALLS = 240
LONG = 200.0  # seconds; it takes about ten


@pytest.mark.timeout(300)
def test_a_handler_that_raises_at_any_moment_leaves_no_lock_held_by_nobody(
    url: str, crew: Crew
) -> None:
    """H09 H83: hundreds of random moments of acquire, renew, release, close and of waiting.

    Each call returns, or raises what the handler raised. Afterwards the client works, nobody
    stands in the queue, and within a ttl no lock is held: none is renewed for nobody.
    """
    worker = crew.worker("signaled", url, "1", str(CALLS))
    told = worker.hear(event="attacked", within=LONG)
    assert told["hits"] > CALLS
    assert told["left"] == []
    assert told["waiters"] == 0
    assert told["troubles"] == {}
    worker.hear(event="closed")
    assert worker.wait() == 0, worker.errors()
