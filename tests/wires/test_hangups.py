"""What waits for the ends of sessions never keeps a program from ending."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, socket, sys, threading
from fencelock.wires.disconnect_monitor import Hangups

hangups, (ours, theirs) = Hangups(), socket.socketpair()
hangups.watch(ours.fileno(), print)
had = threading.Event()

def keep():  # as the thread that listens may, at any moment
    with hangups._mutex:
        had.set()
        threading.Event().wait()

class Client:
    def __del__(self, hangups=hangups):
        hangups.forget(print)
        hangups.close()

if sys.argv[1] == "closed":
    hangups.close()
threading.Thread(target=keep, daemon=True).start()
had.wait()
if sys.argv[1] == "closed":
    hangups.close()
    hangups.forget(print)
kept = Client()
sys.kept = kept  # collected when nothing else is left of the interpreter
"""


def ends(how: str) -> bool:
    command = [sys.executable, "-c", PROGRAM, how]
    try:
        return subprocess.run(command, timeout=20, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def test_a_client_that_is_collected_as_the_interpreter_ends_does_not_keep_it() -> None:
    """The thread that listens stands still by then, and has the mutex."""
    assert ends("open")


def test_what_was_closed_can_be_closed_again_without_waiting() -> None:
    assert ends("closed")
