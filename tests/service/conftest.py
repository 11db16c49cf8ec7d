"""Nodes that several tests share, and the program that starts others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.service.nodes import Node


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    assert program.close() == [], "processes were left behind"


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Node]:
    """A node that everybody may call. Tests share it, so each has names of its own."""
    program = Program(tmp_path_factory.mktemp("node"))
    url = "memory://" if request.param == "memory" else program.url
    node = Node(program, "--insecure", "--drain", "0s", url=url)
    yield node
    stopped = node.stop()
    said = node.process.stderr.read() if node.process.stderr else ""
    left = program.close() if os.path.isdir("/proc/self") else []
    assert (stopped, left) == (0, []), said
    assert "Traceback" not in said
