"""A thread that is started in the main thread, where a signal handler may raise at any moment."""

from __future__ import annotations

import socket
import threading

import pytest

from fencelock.wires.daemon_thread import start_daemon
from fencelock.wires.disconnect_monitor import Hangups

SOON = 10.0


class Hit(Exception):
    """Raised by a handler."""


@pytest.fixture(autouse=True)
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts a thread in Python is hit in the midst of that."""
    start = threading.Thread.start

    def hit(thread: threading.Thread) -> None:
        if threading.current_thread() is threading.main_thread():
            raise Hit
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", hit)


def test_it_runs() -> None:
    ran = threading.Event()
    start_daemon(ran.set, "test")
    assert ran.wait(SOON)


def test_the_end_of_a_session_is_noticed() -> None:
    hangups, ended = Hangups(), threading.Event()
    ours, theirs = socket.socketpair()
    with ours:
        hangups.watch(ours.fileno(), ended.set)
        theirs.close()
        assert ended.wait(SOON)
    hangups.close()
