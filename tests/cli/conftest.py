"""One program for each test, and no process of it may be left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    if not os.path.isdir("/proc/self"):
        pytest.skip("needs /proc to look for orphans")
    program = Program(tmp_path)
    yield program
    assert program.close() == [], "processes were left behind"
