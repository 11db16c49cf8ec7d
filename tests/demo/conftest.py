"""The demo as a process, with a temporary folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo.observer import DEADLINE_S, DEMO, Start


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the demo makes its temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture
def environment(temporary: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "TERM"}}
    return {**kept, "TMPDIR": str(temporary), "TERM": "xterm", "PYTHONWARNINGS": "error"}


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start the demo; what a failed test leaves behind is ended."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, new_session: bool = False) -> subprocess.Popen[str]:
        demo = subprocess.Popen(
            [*DEMO, "--seconds-limit", str(DEADLINE_S), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=new_session,
        )
        started.append(demo)
        return demo

    # A runner started in the background ignores Ctrl-C, and its children would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield start
    finally:
        signal.signal(signal.SIGINT, before)
        for demo in started:
            with demo:
                demo.terminate()
