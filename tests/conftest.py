"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator

import hypothesis
import pytest

from tests import slow
from tests.faults import grid
from tests.grace import concerns_it, lengthen_grace
from tests.servers.server import Missing

# Tests trust nobody but the certificates that they make. To read all those that the machine trusts
# takes far longer than to connect, and PyMySQL does so for every connection.
os.environ["SSL_CERT_FILE"] = os.devnull

# No test says how long anything may take, and a machine may stand still for a moment.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


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


@pytest.fixture(autouse=True)
def grace(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no test fail because a server was kept from running for a second."""
    if not concerns_it(request.node):
        lengthen_grace(monkeypatch.setattr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip a test whose server or tool is not installed, with what to install as the reason."""
    try:
        yield
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """The same where the test itself starts the server."""
    try:
        yield
    except Missing as missing:
        pytest.skip(str(missing))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have the outcome of each test say which hazard it shows, and mark what is slow."""
    grid.label(item)
    if slow.is_slow(item):
        item.add_marker("slow")
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(slow.TIMEOUT_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the hazards and what became of them in this run."""
    text = grid.lines(grid.outcomes(terminalreporter.stats))
    if text:
        terminalreporter.section("hazards: what this run has shown, by engine and flavor")
        terminalreporter.write("\n".join(text) + "\n")
