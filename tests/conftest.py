"""What holds for all tests."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Take signals as a program on a terminal does.

    Whoever starts the tests in the background, or under nohup, ignores some; what is ignored stays
    so in every process that the tests start.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
