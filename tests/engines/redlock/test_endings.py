"""A program that ends at once, while connections to the nodes are still being made."""

from __future__ import annotations

import subprocess
import sys

from tests.servers.redlock import Nodes

PROGRAMS = 24
ENDS_S = 60.0

PROGRAM = """
import sys
import fencelock

client = fencelock.connect(sys.argv[1])
lease = client.lock(sys.argv[2], ttl=60).acquire()
"""


def test_programs_that_end_at_once_do_not_hang(nodes: Nodes) -> None:
    """H33: a thread that is stopped with the interpreter keeps its mutex: nobody waits for it."""
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, nodes.url, f"seat:{number}"])
        for number in range(PROGRAMS)
    ]
    try:
        assert [program.wait(ENDS_S) for program in running] == [0] * PROGRAMS
    finally:
        for program in running:
            program.kill()
            program.wait()
