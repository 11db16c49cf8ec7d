"""An asyncio protocol that reads into a reused buffer.

For a plain ``asyncio.Protocol`` the loop allocates a quarter of a megabyte for each read. Depending
on what else is in memory, the allocator gets it from the system each time, which takes longer than
to read a lock's reply of some sixty bytes.
"""

from __future__ import annotations

import asyncio

BUFFER_BYTES = 65_536


class Receiver(asyncio.BufferedProtocol):
    """As ``asyncio.Protocol``: a subclass implements ``data_received``."""

    _buffer: memoryview | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._buffer is None:
            self._buffer = memoryview(bytearray(BUFFER_BYTES))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert self._buffer is not None
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take what was read."""
        raise NotImplementedError
