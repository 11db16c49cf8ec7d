"""A server that takes the connection and says nothing, and a signal meanwhile."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

LATE_S = 30.0


@pytest.mark.parametrize("scheme", ["etcd", "zookeeper"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_does_not_make_it_wait_for_ever(scheme: str, number: signal.Signals) -> None:
    """The wrapper tries a signal again and again: a wait must not begin anew with each."""
    short = {"etcd": "patience=2", "zookeeper": "session=8"}[scheme]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LATE_S)
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}?{short}"
        command = [sys.executable, "-m", "fencelock", "run", "a", "--url", url, "--", "true"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            with silent.accept()[0] as line:
                assert line.recv(1), "it asks"
                process.send_signal(number)
                _, said = process.communicate(timeout=LATE_S)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 69
    assert said.count("\n") == 1
    assert "127.0.0.1" in said
