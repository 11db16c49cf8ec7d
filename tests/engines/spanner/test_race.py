"""Clients that race for one lock: each is alone in its turn, and has a fence above all before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.servers.spanner import Spanner

TURNS = 350  # of each of three processes
ENDS_S = 300.0


def test_no_two_of_a_thousand_turns_overlap(server: Spanner, tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    url = server.fresh_url()
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.engines.spanner.race", url, tmp_path, str(TURNS), flavor]
        )
        for flavor in ("sync", "asyncio", "sync")
    ]
    try:
        assert [racer.wait(ENDS_S) for racer in racers] == [0] * len(racers)
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    turns = TURNS * len(racers)
    assert int((tmp_path / "count").read_text()) == turns
    fences = [int(line) for line in (tmp_path / "fences").read_text().splitlines()]
    assert len(fences) == turns
    assert fences == sorted(set(fences))
