"""Hazelcast's Java client and ours exclude each other by one FencedLock."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencelock
from tests.faults.flavors import SOON, Lab, run
from tests.servers.hazelcast import Hazelcast, run_contender

OURS, THEIRS = 500, 600  # turns of each of two
LONG = 120.0  # a Java machine that starts on a busy machine


class Java:
    """A Java program that locks and unlocks when it is told to."""

    def __init__(self, hazelcast: Hazelcast, name: str) -> None:
        self._process = run_contender(hazelcast, name)
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def begin(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def do(self, word: str) -> str:
        self.begin(word)
        return self._answer()

    def answer_of(self, began: str) -> str:
        """The answer to what was begun before."""
        return self._answer()

    def clear(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def java(hazelcast: Hazelcast) -> Iterator[Java]:
    program = Java(hazelcast, "shared")
    yield program
    program.clear()


def test_java_keeps_us_out_and_we_keep_java_out(
    flavor: str, hazelcast: Hazelcast, java: Java
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.url)
        theirs = int(java.do("lock"))
        assert await client.lock("shared").try_acquire() is None
        (holding,) = await client.holders("shared")
        assert (holding.fence, holding.ttl) == (theirs, hazelcast.session_ttl)
        assert {*holding.meta} == {"session", "thread"}
        waiter = lab.start(client.lock("shared", ttl=30).acquire(timeout=SOON))
        assert java.do("unlock") == "0"
        lease = await waiter.result()
        assert lease.fence > theirs
        java.begin("lock")
        lease.check()
        assert await lease.release() is True
        assert int(java.answer_of("lock")) > lease.fence
        assert java.do("unlock") == "0"

    run(flavor, scenario)


def test_nobody_is_inside_with_another_over_thousands_of_turns(
    hazelcast: Hazelcast, tmp_path: Path
) -> None:
    """Two clients of ours and two Java programs count in a file, in turns, with growing fences."""
    (tmp_path / "count").write_text("0\n")
    failed: list[BaseException] = []

    def ours() -> None:
        try:
            with fencelock.connect(hazelcast.url) as client:
                for _ in range(OURS):
                    with client.lock("turns", ttl=60, timeout=LONG) as lease:
                        take_turn(tmp_path, lease.fence)
        except BaseException as error:
            failed.append(error)

    words = (str(tmp_path), str(THEIRS))
    programs = [run_contender(hazelcast, "turns", *words) for _ in range(2)]
    threads = [threading.Thread(target=ours) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for program in programs:
        try:
            program.communicate(timeout=LONG)
        except subprocess.TimeoutExpired:
            program.kill()
            raise
        assert program.returncode == 0
    assert not failed
    fences = [int(line) for line in (tmp_path / "fences").read_text().split()]
    assert int((tmp_path / "count").read_text()) == len(fences) == 2 * (OURS + THEIRS)
    assert fences == sorted({*fences})


def take_turn(folder: Path, fence: int) -> None:
    """The same as the Java program does in its turn."""
    count = folder / "count"
    count.write_text(f"{int(count.read_text()) + 1}\n")
    with (folder / "fences").open("a") as fences:
        fences.write(f"{fence}\n")
