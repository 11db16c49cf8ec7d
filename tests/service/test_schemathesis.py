"""The description of the calls against a real node: schemathesis sends what it allows, and more."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.service.nodes import Node
from tests.service.test_access import VERBS, Tokens, identity, right, start

pytestmark = pytest.mark.timeout(600)
PROGRAM = Path(sys.executable).with_name("schemathesis")
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
]
"""Not ``positive_data_acceptance``: that a name is in normal form C, that a semaphore has a limit
and a lock none, and what is busy or not held is said in words."""


def attack(program: Program, url: str, token: str, *words: str) -> subprocess.CompletedProcess[str]:
    if not PROGRAM.exists():
        pytest.skip("schemathesis is not installed: pip install -r requirements/dev.txt")
    return subprocess.run(
        [
            *(str(PROGRAM), "run", f"{url}/openapi.json", "--header"),
            *(f"Authorization: Bearer {token}", "--seed", "1", "--request-timeout", "100"),
            *("--suppress-health-check", "all", "--no-color", "--no-shrink", "--warnings", "off"),
            *words,
        ],
        cwd=program.folder,
        env={**os.environ, "PYTHONWARNINGS": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )


@contextlib.contextmanager
def freed(node: Node, token: str) -> Iterator[None]:
    """Take every lock from its holder all the time, so that nobody waits for long."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.2):
            for lock in node.call("locks", token=token).body["locks"]:
                node.call("revoke", {"name": lock["name"], "reason": "a test"}, token)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_nothing_that_is_described_or_forbidden_breaks_the_service(program: Program) -> None:
    """Of all calls but the events, whose answer does not end: each would be waited for in vain."""
    tokens = Tokens(program, "a")
    node = start(program, identity(tokens, "a", right("", *VERBS)))
    with freed(node, tokens["a"]):
        ran = attack(
            *(program, node.url, tokens["a"], "--checks", ",".join(CHECKS)),
            *("--phases", "coverage,fuzzing", "--max-examples", "15"),
            *("--exclude-path", "/v1/events"),
        )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert node.call("about", token=tokens["a"]).status == 200
    assert node.stop() == 0
    assert node.process.stderr is not None
    assert "Traceback" not in node.process.stderr.read()
