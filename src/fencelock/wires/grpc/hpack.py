"""Read and write the headers of HTTP/2 (RFC 7541) without a dynamic table.

Each side may refer to earlier headers by a dynamic table. Our settings forbid the server that, and
we keep none. So a header block means the same wherever it stands: ours are encoded once for each
method, and those that the server repeats are looked up instead of decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache


class Malformed(Exception):
    """Received bytes are not HTTP/2, or use what our settings forbid."""


def write_block(headers: Iterable[tuple[str, str]]) -> bytes:
    """Encode all headers as plain literals without indexing."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in headers)


def _text(value: str) -> bytes:
    data = value.encode()
    return _integer(len(data), 7) + data


def _integer(value: int, bits: int) -> bytes:
    most = (1 << bits) - 1
    if value < most:
        return bytes((value,))
    out = bytearray((most,))
    value -= most
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(maxsize=64)
def read_block(block: bytes) -> dict[str, str]:
    """Decode a header block; the last header of a name counts. Do not change the result."""
    headers: dict[str, str] = {}
    offset = 0
    try:
        while offset < len(block):
            first = block[offset]
            if first & 0b1000_0000:  # name and value from the static table
                index, offset = _integer_at(block, offset, 7)
                name, value = _known(index)
                headers[name] = value
            elif (
                first & 0b1110_0000 == 0b0010_0000
            ):  # the size of the dynamic table, which must be 0
                size, offset = _integer_at(block, offset, 5)
                if size:
                    raise Malformed("the server would remember headers, which it was asked not to")
            else:  # a literal value; whether it may be indexed does not matter
                index, offset = _integer_at(block, offset, 6 if first & 0b0100_0000 else 4)
                if index:
                    name = _known(index)[0]
                else:
                    name, offset = _text_at(block, offset)
                headers[name], offset = _text_at(block, offset)
    except IndexError:
        raise Malformed("a block of headers was cut short") from None
    return headers


def _known(index: int) -> tuple[str, str]:
    if not 0 < index <= len(_TABLE):
        raise Malformed("a header refers to a table that is not kept")
    return _TABLE[index - 1]


def _integer_at(data: bytes, offset: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = data[offset] & most
    offset += 1
    if value < most:
        return value, offset
    for shift in range(0, 29, 7):
        byte = data[offset]
        offset += 1
        value += (byte & 127) << shift
        if byte < 128:
            return value, offset
    raise Malformed("an integer of a header is too large")


def _text_at(data: bytes, offset: int) -> tuple[str, int]:
    is_packed = data[offset] & 0b1000_0000
    size, offset = _integer_at(data, offset, 7)
    text = data[offset : offset + size]
    if len(text) < size:
        raise Malformed("a header ends behind its block")
    return (_unpack(text) if is_packed else text).decode("latin-1"), offset + size


def _unpack(data: bytes) -> bytes:
    """Decode a text in Huffman's code, whose last byte is padded with ones."""
    codes, out, word = _codes(), bytearray(), ""
    for bit in format(int.from_bytes(data, "big"), f"0{8 * len(data)}b") if data else "":
        word += bit
        if (symbol := codes.get(word)) is not None:
            out.append(symbol)
            word = ""
        elif len(word) == 30:  # no code is longer, and this is none
            break
    if len(word) > 7 or "0" in word:
        raise Malformed("a header's text is cut short")
    return bytes(out)


@cache
def _codes() -> dict[str, int]:
    """Map codes to symbols: codes count up through all symbols, short ones first (Appendix B)."""
    codes: dict[str, int] = {}
    number, before = 0, 0
    for length, symbols in _LENGTHS.items():
        number <<= length - before
        before = length
        for symbol in symbols:
            codes[format(number, f"0{length}b")] = symbol
            number += 1
    return codes


_LENGTHS = {
    5: b"012aceiost",
    6: b" %-./3456789=A_bdfghlmnpru",
    7: b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: b"&*,;XZ",
    10: b'!"()?',
    11: b"'+|",
    12: b"#>",
    13: b"\0$@[]~",
    14: b"^}",
    15: b"<`{",
    19: b"\\\xc3\xd0",
    20: b"\x80\x82\x83\xa2\xb8\xc2\xe0\xe2",
    21: b"\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6",
    22: bytes.fromhex("8184858688929a9ca0a3a4a9aaadb2b5b9babbbdbec4c6e4e8e9"),
    23: bytes.fromhex("0187898a8b8c8d8f93959697989b9d9ea5a6a8aeafb4b6b7bcbfc5e7ef"),
    24: b"\t\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed",
    25: b"\xc7\xcf\xea\xeb",
    26: b"\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff",
    27: bytes.fromhex("cbccd3d4d6dddedff1f4f5f6f7f8fafbfcfdfe"),
    28: bytes.fromhex("020304050607080b0c0e0f1011121314151718191a1b1c1d1e1f7fdcf9"),
    30: b"\n\r\x16",
}

# Appendix A: the static table.
_PAIRS = """
:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https
:status 200|:status 204|:status 206|:status 304|:status 400|:status 404|:status 500
accept-charset|accept-encoding gzip, deflate|accept-language|accept-ranges|accept
access-control-allow-origin|age|allow|authorization|cache-control|content-disposition
content-encoding|content-language|content-length|content-location|content-range|content-type
cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range
if-unmodified-since|last-modified|link|location|max-forwards|proxy-authenticate
proxy-authorization|range|referer|refresh|retry-after|server|set-cookie
strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate
"""
_TABLE: list[tuple[str, str]] = [
    (pair.partition(" ")[0], pair.partition(" ")[2])
    for line in _PAIRS.split("\n")
    if line
    for pair in line.split("|")
]
