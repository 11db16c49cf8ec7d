"""Stdout that is closed, full or not read: no traceback, and no lock that nobody can release."""

from __future__ import annotations

import os
import signal
import subprocess
from threading import Event
from typing import cast

import pytest

from fencelock import Client
from fencelock.cli.acquisition import CLOSE_S, _close
from fencelock.cli.signals import Signals
from tests.cli.program import COMMAND, Completed, Program


def with_output(program: Program, redirection: str, *words: str) -> Completed:
    """Run it with stdout redirected, as a shell writes it."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *words],
        env=program.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def with_reader_gone(program: Program, *words: str) -> Completed:
    """Run it with a pipe as stdout that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    try:
        return program.run(*words, stdout=write)
    finally:
        os.close(write)


@pytest.mark.parametrize("how", [[], ["--shell"], ["--json"]])
def test_a_lease_that_could_not_be_printed_is_released(how: list[str], program: Program) -> None:
    ran = with_output(program, ">/dev/full", "acquire", "a", *how)
    assert (ran.returncode, ran.stderr) == (
        125,
        "fencelock: stdout cannot be written: No space left on device\n",
    )
    ran = with_reader_gone(program, "acquire", "a", *how)
    assert (ran.returncode, ran.stderr) == (141, "")
    assert program.json("show", "a")["held"] is False


@pytest.mark.parametrize("words", ["ls --json", "show a", "doctor", "completion bash", "ls --bad"])
def test_no_traceback_for_want_of_a_stdout(words: str, program: Program) -> None:
    for redirection in (">&-", ">/dev/full", ">&- 2>&-"):
        assert "Traceback" not in with_output(program, redirection, *words.split()).stderr
    ran = with_output(program, ">&-", "show", "a")
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("words", ["--help", "--version", "run --help", "ls --help", ""])
@pytest.mark.parametrize("buffered", ["", "1"])
def test_help_that_could_not_be_printed_is_a_failure(
    words: str, buffered: str, program: Program
) -> None:
    program.environment["PYTHONUNBUFFERED"] = buffered
    ran = with_output(program, ">/dev/full", *words.split())
    assert (ran.returncode, ran.stderr) == (
        125,
        "fencelock: stdout cannot be written: No space left on device\n",
    )
    assert with_output(program, ">&-", *words.split()).returncode == 0


class ImpatientClient:
    """A client whose close is met by a second signal, and ends some time after it."""

    closed = False

    def close(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        Event().wait(0.05)
        self.closed = True


def test_a_signal_that_comes_twice_still_lets_the_client_take_its_attempt_back() -> None:
    with Signals() as signals:
        client = ImpatientClient()
        _close(cast("Client", client), signals, CLOSE_S)
        assert client.closed
