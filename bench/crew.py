"""Child processes that do one job each, all at once, and report.

Every wait has an end. Whatever still runs at the end of the `with` block is stopped by its process
id.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple

DEADLINE_S = 120.0
STOP_S = 5.0


class ChildFailed(Exception):
    """A child process raised, ended early or did not answer in time."""


class Line:
    """The child's end of its line to the harness."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def say(self, message: object) -> None:
        self._connection.send((message, ""))

    def hear(self) -> Any:
        """Wait for the harness's next word."""
        if not self._connection.poll(DEADLINE_S):
            raise ChildFailed("the harness has gone silent")
        return self._connection.recv()


class _Child(NamedTuple):
    process: SpawnProcess
    connection: Connection


class Crew:
    """Children that each run `job(line, *arguments)`."""

    def __init__(
        self,
        job: Callable[..., None],
        arguments: Sequence[tuple[object, ...]],
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self._job = job
        self._arguments = arguments
        self._deadline_s = deadline_s
        self._children: list[_Child] = []

    def __enter__(self) -> Crew:
        self._deadline = time.monotonic() + self._deadline_s
        context = get_context("spawn")  # a fork would inherit locks and threads
        try:
            for arguments in self._arguments:
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_run, args=(theirs, self._job, arguments), daemon=True
                )
                process.start()
                theirs.close()
                self._children.append(_Child(process, ours))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process, _connection in self._children:
            if process.is_alive():
                process.kill()  # first: a child that sees its line closed would end in good order
        for process, connection in self._children:
            connection.close()
            process.join(STOP_S)

    def say(self, message: object) -> None:
        """Tell all the same."""
        for child in self._children:
            child.connection.send(message)

    def hear(self) -> list[Any]:
        """Wait for the next word of each."""
        return [self._hear(child) for child in self._children]

    def tell(self, number: int, message: object) -> None:
        """Tell one of them."""
        self._children[number].connection.send(message)

    def hear_one(self, number: int) -> Any:
        """Wait for the next word of one of them."""
        return self._hear(self._children[number])

    def kill(self, number: int) -> None:
        """End one of them at once: it cannot even say so."""
        self._children[number].process.kill()

    def _hear(self, child: _Child) -> Any:
        if not child.connection.poll(max(0.0, self._deadline - time.monotonic())):
            raise ChildFailed(f"no answer within {self._deadline_s:g} s")
        try:
            message, failure = child.connection.recv()
        except EOFError:
            raise ChildFailed("it ended without an answer") from None
        if failure:
            raise ChildFailed(failure)
        return message


def _run(connection: Connection, job: Callable[..., None], arguments: tuple[object, ...]) -> None:
    try:
        job(Line(connection), *arguments)
    except Exception as error:
        try:
            connection.send((None, f"{type(error).__name__}: {error}"))
            traceback.print_exc()  # the report carries no paths, the terminal may
        except OSError:
            pass  # the harness has stopped listening
