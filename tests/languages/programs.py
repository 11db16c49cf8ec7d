"""Programs of other languages that hold a lock, or take turns with clients of ours."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import fencelock
from fencelock import aio
from tests.faults.flavors import SOON
from tests.languages.register import Register
from tests.servers import go_programs
from tests.servers.maven_programs import JavaProgram
from tests.servers.server import Missing, program, with_us

TURNS = 500  # of each of two workers of theirs and two of ours
WORKERS = 2
ALL = 4 * TURNS
REST_S = 0.002  # between two looks, as those of the programs
TURNS_S = 400.0  # far more than all of them take
JAVA = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def go(name: str, *words: object) -> list[str]:
    """The command of a program in Go."""
    found = go_programs.find(name)
    if found is None:
        raise Missing(go_programs.ADVICE)
    return [str(found), *map(str, words)]


def java(what: JavaProgram, main: str, *words: object) -> list[str]:
    """The command of a program in Java."""
    classes, runs = what.classpath(), program("java", "default-jre-headless")
    return [runs, *JAVA, "-cp", classes, main, *map(str, words)]


class Program:
    """One that says what it has done, a line each time, and waits for a line to go on."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [*with_us(), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def hear(self, word: str) -> list[str]:
        """Wait until it says this word; what it says behind it."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().split()
        if line[:1] != [word]:
            self._process.kill()
            raise AssertionError(f"said {line} and not {word!r}: {self._process.communicate()[1]}")
        return line[1:]

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self, within: float = SOON) -> None:
        """Have its input end, and wait until it has done all it has to."""
        _, said = self._process.communicate(timeout=within)
        assert self._process.returncode == 0, said

    def fail(self) -> str:
        """Wait for it to end with an error; what it says of that."""
        _, said = self._process.communicate(timeout=SOON)
        assert self._process.returncode != 0
        return said

    def clear(self) -> None:
        self._process.kill()
        self._process.communicate()


class Ours:
    """Two clients of ours at a time: one for threads, one for asyncio."""

    def __init__(self, url: str, **options: object) -> None:
        self._url, self._options = url, options
        self._errors: list[BaseException] = []

    def record(self, register: Register, name: str) -> list[threading.Thread]:
        """Take turns on a lock, each noted in the register."""

        def by_threads() -> None:
            with fencelock.connect(self._url, **self._options) as client:
                for _ in range(TURNS):
                    with client.lock(name, ttl=60, timeout=SOON) as lease:
                        register.record("ours-threads", lease.fence)

        async def by_asyncio() -> None:
            async with aio.connect(self._url, **self._options) as client:
                for _ in range(TURNS):
                    async with client.lock(name, ttl=60, timeout=SOON) as lease:
                        register.record("ours-asyncio", lease.fence)

        return self.start(by_threads, by_asyncio)

    def poll(self, register: Register, name: str) -> list[threading.Thread]:
        """The same, among programs that poll: who queues with us is given the lock before them."""

        def by_threads() -> None:
            with fencelock.connect(self._url, **self._options) as client:
                for _ in range(TURNS):
                    while (lease := client.lock(name, ttl=60).try_acquire()) is None:
                        time.sleep(REST_S)
                    with lease:
                        register.record("ours-threads", lease.fence)
                    time.sleep(REST_S)

        async def by_asyncio() -> None:
            async with aio.connect(self._url, **self._options) as client:
                for _ in range(TURNS):
                    while (lease := await client.lock(name, ttl=60).try_acquire()) is None:  # noqa: ASYNC110  # it polls
                        await asyncio.sleep(REST_S)
                    async with lease:
                        register.record("ours-asyncio", lease.fence)
                    await asyncio.sleep(REST_S)

        return self.start(by_threads, by_asyncio)

    def start(
        self, by_threads: Callable[[], None], by_asyncio: Callable[[], Coroutine[Any, Any, None]]
    ) -> list[threading.Thread]:
        works = [by_threads, lambda: asyncio.run(by_asyncio())]
        threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        return threads

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # handed to whoever waits for the end
            self._errors.append(error)

    def end(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(TURNS_S)
            assert not thread.is_alive(), "turns of ours took too long"
        for error in self._errors:
            raise error


def take_turns(
    register: Register, ours: Ours, theirs: Program, start: Callable[[], list[threading.Thread]]
) -> None:
    """Have both sides begin at the same time, and wait until both have ended."""
    theirs.hear("ready")
    threads = start()
    theirs.go_on()
    try:
        ours.end(threads)
        theirs.end(TURNS_S)
    except BaseException:
        assert register.clashes == []  # then what broke is of no interest
        raise
