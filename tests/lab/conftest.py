"""A browser, and the page of the lab as the program serves it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.cli.program import Program, end
from tests.service.browsers import started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as browser:
        yield browser


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    assert program.close() == [], "processes were left behind"


@pytest.fixture
def url(program: Program) -> Iterator[str]:
    """Where the page is. Ctrl-C ends it without a word."""
    process = program.start("lab", "--no-browser", "--json")
    assert process.stdout is not None
    yield str(json.loads(process.stdout.readline())["url"])
    process.send_signal(signal.SIGINT)
    ended = end(process)
    assert (ended.returncode, ended.stderr) == (130, "")
