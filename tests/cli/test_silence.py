"""A server that takes the connection and says nothing, and a signal meanwhile."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

LATE_S = 30.0
URLS = {
    "etcd": "etcd://{}?request_timeout=20",
    "mysql": "mysql://{}/locks?request_timeout=20",
    "postgresql": "postgresql://{}/locks?request_timeout=20",
    "redis": "redis://{}?request_timeout=20",
    "zookeeper": "zookeeper://{}?session=60",
}
VERBS = {
    "acquire": ["acquire", "a"],
    "hold": ["hold", "a"],
    "run": ["run", "a", "--", "true"],
    "watch": ["watch"],
}


def interrupt(words: list[str], scheme: str, number: signal.Signals) -> tuple[int, str]:
    """Send a signal to a command that connects to a silent server: its exit code, its words."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LATE_S)
        url = URLS[scheme].format(f"127.0.0.1:{silent.getsockname()[1]}")
        command = [sys.executable, "-m", "fencelock", words[0], "--url", url, *words[1:]]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            with silent.accept()[0]:
                process.send_signal(number)
                _, said = process.communicate(timeout=LATE_S)
        finally:
            process.kill()
            process.wait()
    return process.returncode, said


@pytest.mark.parametrize("scheme", URLS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_it_connects(scheme: str, number: signal.Signals) -> None:
    """H33: there is nothing to be taken back, and nobody wants to wait for a dead server."""
    assert interrupt(VERBS["run"], scheme, number) == (128 + number, "")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_that_handles_signals_ends(verb: str) -> None:
    assert interrupt(VERBS[verb], "redis", signal.SIGTERM) == (128 + signal.SIGTERM, "")
