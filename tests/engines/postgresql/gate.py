"""Holds up one statement on its way, so that a test decides what comes before it and what after."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.faults.flavors import Lab


class Gate:
    """Stops the first statement over a session, or a wire, whose text has a word in it.

    ``answered`` lets it reach the server first, and holds up the answer.
    """

    def __init__(self, lab: Lab, session: Any, word: str, answered: bool = False) -> None:
        self._lab = lab
        self._word = word
        self._answered = answered
        self._reached = self._open = False
        for way in ("execute", "execute_soon"):
            if (execute := getattr(session, way, None)) is not None:
                setattr(session, way, partial(self._pass, execute))

    async def _pass(self, execute: Any, statement: Any, *values: object, **options: Any) -> Any:
        if self._reached or self._word not in statement.sql:
            return await execute(statement, *values, **options)
        if self._answered:
            answer = await execute(statement, *values, **options)
            await self._stop()
            return answer
        await self._stop()
        return await execute(statement, *values, **options)

    async def _stop(self) -> None:
        self._reached = True
        await self._lab.until(lambda: self._open, "a gate to be opened")

    async def reached(self) -> None:
        """Wait until somebody stands before it."""
        await self._lab.until(lambda: self._reached, "the statement to be sent")

    def open(self) -> None:
        self._open = True


def engine_of(client: Any) -> Any:
    """The engine of a client."""
    return client._core.engine
