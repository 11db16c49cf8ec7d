"""A stream for asyncio, on the connection that the calls have, too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .call import Call, Refused
from .line_aio import Line


class _Flow(Call):
    """A call that tells of each message."""

    __slots__ = ("_end", "_hear")

    def __init__(self, head: bytes, hear: Callable[[bytes], None], end: Callable[[], None]) -> None:
        super().__init__(head, None, goes_on=True)
        self._hear = hear
        self._end = end

    def heard(self, message: bytes) -> None:
        self._hear(message)

    def ended(self) -> None:
        self._end()


class Stream:
    """Messages both ways, until either side ends it."""

    def __init__(
        self,
        line: Awaitable[Line],
        head: bytes,
        hear: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> None:
        self._call = _Flow(head, hear, end)
        self._early: list[bytes] = []
        """What is to be said once there is a connection."""
        self._line: Line | None = None
        self._task = asyncio.ensure_future(self._begin(line))

    async def _begin(self, line: Awaitable[Line]) -> None:
        try:
            found = await line
        except Refused as error:
            self._call.end(error)
            return
        if not self._call.done:
            self._line = found
            found.begin(self._call)
            for message in self._early:
                found.send(self._call, message)

    def send(self, message: bytes) -> None:
        if self._line is None:
            self._early.append(message)
        else:
            self._line.send(self._call, message)

    def close(self) -> None:
        self._call.end(None)
        if self._line is not None:
            self._line.end(self._call)
