"""The pipe that wakes a thread which polls sockets."""

from __future__ import annotations

import select

from fencelock.wires.wakeup_pipe import WakeupPipe


def test_a_pipe_that_was_closed_writes_to_nobody() -> None:
    """Its descriptor's number may be a connection's by now."""
    pipe = WakeupPipe()
    pipe.wake()
    polled = pipe.open()
    pipe.wake()
    assert polled == pipe.descriptor
    pipe.drain()
    pipe.close()
    reused = WakeupPipe()
    assert reused.open() == polled, "the same number again"
    pipe.wake()

    poll = select.poll()
    poll.register(polled, select.POLLIN)
    assert poll.poll(0) == []
    reused.close()
