"""Programs that a test has started; none is left when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.languages.programs import Program
from tests.languages.register import Register

Start = Callable[[Sequence[str]], Program]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Program] = []

    def one(command: Sequence[str]) -> Program:
        started.append(Program(command))
        return started[-1]

    yield one
    for program in started:
        program.clear()


@pytest.fixture
def register(tmp_path: Path) -> Register:
    return Register(tmp_path)
