"""Signal handlers that raise while the embedded engine is at work never leave its file blocked."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import fencelock
from tests.faults.crew import Crew

CALLS = 1500
LONG = 200.0  # seconds; it takes ten
SEEDS = int(os.environ.get("FENCELOCK_STORMS", "1"))  # `make torture` has more than one


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_handler_that_raises_at_any_moment_blocks_neither_file_nor_threads(
    file_url: str, database: Path, crew: Crew, seed: int
) -> None:
    """H71: thousands of random moments, some of them while an exception is on its way already.

    Meanwhile another process takes a lock of the same file again and again, the other threads of
    the client go on, and in the end nothing is held, nobody waits, and nothing stays open.
    """
    worker = crew.worker("signaled_engine", file_url, str(seed), str(CALLS))
    with fencelock.connect(file_url, request_timeout=20) as other:
        give_up = time.monotonic() + LONG
        while not worker.has_said(event="attacked") and time.monotonic() < give_up:
            with other.lock("probe", ttl=600):
                assert worker.is_running(), worker.errors()
        told = worker.hear(event="attacked")
        assert told["hits"] > CALLS / 2
        assert told["turns"] > 0
        assert told["stuck"] == 0
        assert told["troubles"] == []
        assert told["held"] is True
        assert {*map(tuple, told["left"].values())} == {(0, 0)}
        with other.lock("probe"):  # the process lives, and its file is free
            pass
        worker.send("close")
        closed = worker.hear(event="closed")
        assert closed["files"] == []
        assert closed["threads"] == ["MainThread"]
