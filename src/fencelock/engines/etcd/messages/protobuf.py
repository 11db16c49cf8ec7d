"""Encode and decode protobuf messages: numbered fields, integers in groups of seven bits.

Nothing here is specific to etcd. Readers skip unknown fields, as protobuf requires, so replies of
newer servers are understood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

Field: TypeAlias = tuple[int, int, bytes]
"""Number, integer value, bytes value: one of the two values is empty."""

INT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN, _WRAP = 1 << 63, 1 << 64
EMPTY = b""


class Malformed(Exception):
    """The bytes are no reply of etcd."""


def varint(value: int) -> bytes:
    """Encode an integer in groups of seven bits; a negative one as 64 bits in two's complement."""
    if 0 <= value < 128:
        return _SMALL[value]
    if value < 0:
        value += _WRAP
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = [bytes((value,)) for value in range(128)]


def integer(number: int, value: int) -> bytes:
    """Encode a field with an integer; the default, 0, is not sent."""
    return varint(number << 3 | INT) + varint(value) if value else b""


def text(number: int, value: bytes) -> bytes:
    """Encode a field with bytes, which may be a message; the default, no bytes, is not sent."""
    return message(number, value) if value else b""


def message(number: int, value: bytes) -> bytes:
    """Encode a field with a message, sent even when it is empty."""
    return opening(number, len(value)) + value


def opening(number: int, size: int) -> bytes:
    """Encode the tag and the size that precede the bytes of a field."""
    return varint(number << 3 | _BYTES) + varint(size)


def fields(data: bytes) -> Iterator[Field]:
    """Decode the fields of a message in their order."""
    offset, end = 0, len(data)
    try:
        while offset < end:
            tag, offset = _varint_at(data, offset)
            number, kind = tag >> 3, tag & 7
            if kind == INT:
                value, offset = _varint_at(data, offset)
                yield number, value, EMPTY
            elif kind == _BYTES:
                size, offset = _varint_at(data, offset)
                if offset + size > end:
                    raise Malformed("a field ends behind its message")
                yield number, 0, data[offset : offset + size]
                offset += size
            elif kind in (_FIXED64, _FIXED32):
                offset += 8 if kind == _FIXED64 else 4
            else:
                raise Malformed(f"a field has the unknown kind {kind}")
    except IndexError:
        raise Malformed("a message was cut short") from None


def _varint_at(data: bytes, offset: int) -> tuple[int, int]:
    value = data[offset]
    offset += 1
    if value < 128:
        return value, offset
    value &= 127
    shift = 7
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, offset
        shift += 7
        if shift > 63:
            raise Malformed("an integer has more than 64 bits")


def signed(value: int) -> int:
    """Convert a varint to an int64: protobuf sends a negative integer as a large one."""
    return value - _WRAP if value >= _SIGN else value
