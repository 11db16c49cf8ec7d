"""What the lab uses of hiredis, which is written in C and not to be had in a browser.

It reads and writes the protocol of Redis as far as simulated clients and servers speak it: whole
requests, which are lists of strings.
"""

from __future__ import annotations

__version__ = "0"


class HiredisError(Exception):
    """An error of this library."""


class ReplyError(HiredisError):
    """A server refused a command."""


class ProtocolError(HiredisError):
    """What was read is not a request."""


def pack_command(words: tuple[str | bytes, ...]) -> bytes:
    """A command as a client sends it."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word.encode() if isinstance(word, str) else word
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Reader:
    """Reads requests out of whatever it is fed."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> None:
        """Add what has arrived."""
        self._data += data

    def gets(self) -> list[bytes] | bool:
        """The next request, or False if there is no whole one."""
        if not self._data:
            return False
        place = 0

        def number(sign: bytes) -> int:
            nonlocal place
            end = self._data.index(b"\r\n", place)
            if self._data[place : place + 1] != sign:
                raise ProtocolError(f"not a request: {self._data[place:end][:40]!r}")
            found = int(self._data[place + 1 : end])
            place = end + 2
            return found

        words: list[bytes] = []
        try:
            for _ in range(number(b"*")):
                length = number(b"$")
                if len(self._data) < place + length + 2:
                    return False
                words.append(self._data[place : place + length])
                place += length + 2
        except ValueError:  # a line has no end yet
            return False
        self._data = self._data[place:]
        return words
