"""A flag that the main thread waits for, while signals come."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest

from fencelock.wires.thread_flag import ThreadFlag

LONG_S = 30.0


class Stop(Exception):
    """What the handler raises."""


def test_a_signal_that_another_thread_was_given_ends_the_wait() -> None:
    """Python runs its handler in the main thread, and does not wake that for it."""
    flag, before, was_set = ThreadFlag(), signal.getsignal(signal.SIGUSR1), list[bool]()

    def handler(number: int, frame: FrameType | None) -> None:
        was_set.append(flag.is_set())
        raise Stop

    def take() -> None:
        while not flag._waiters:
            pass
        signal.raise_signal(signal.SIGUSR1)  # to this thread

    rescue = threading.Timer(LONG_S, flag.set)
    rescue.start()
    signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Stop):
            threading.Thread(target=take).start()
            flag.wait(None)
            flag.wait(0)  # here at the latest
    finally:
        signal.signal(signal.SIGUSR1, before)
        rescue.cancel()
    assert was_set == [False]
    assert flag._waiters == []


@pytest.mark.parametrize("seconds", [None, LONG_S, 0.01, -1.0])
def test_a_wait_ends_when_it_is_set_or_when_its_time_is_over(seconds: float | None) -> None:
    flag = ThreadFlag()
    if seconds is None or seconds > 1:
        threading.Timer(1.2, flag.set).start()  # after the main thread has looked around once
        assert flag.wait(seconds) is True
    else:
        assert flag.wait(seconds) is False
    assert flag._waiters == []
