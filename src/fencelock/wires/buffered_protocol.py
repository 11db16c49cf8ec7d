"""Hearing a server on an event loop, into room that is kept.

A plain ``asyncio.Protocol`` is read for into a quarter of a megabyte that is made and given back
each time. Depending on what else is in memory, the system has to be asked for that anew each time,
and it takes longer than to read a lock's answer of some sixty bytes.
"""

from __future__ import annotations

import asyncio

ROOM = 65_536


class Receiver(asyncio.BufferedProtocol):
    """What a Protocol is, in less time."""

    _room: memoryview | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._room is None:
            self._room = memoryview(bytearray(ROOM))
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        assert self._room is not None
        self.data_received(bytes(self._room[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Something has come."""
        raise NotImplementedError
