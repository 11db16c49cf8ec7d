"""Headers of HTTP/2 against the examples of RFC 7541, and against anything else."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencelock.wires.grpc import hpack
from fencelock.wires.grpc.hpack import Malformed, read_block, write_block

# All 256 bytes in order, one after the other in the code of Appendix B.
ALL_PACKED = bytes.fromhex(
    "ffc7fffd8fffffe2fffffe3fffffe4fffffe5fffffe6fffffe7fffffe8ffffeafffffff3fffffa7fffffabffffffdf"
    "ffffebfffffecfffffedfffffeefffffefffffff0ffffff1ffffff2fffffffbfffffcffffffd3fffffd7fffffdbfff"
    "ffdffffffe3fffffe7fffffebfffffed4fe3f9ffaffcabf1febfafefe7fdfd2cbb00089969b71d79fb9f7fff20ffbf"
    "f3ff50ddbd7f061c58f265cd9f469d5af66dddbf871e5f9cff7ff7fffc3ff9ffe45fff4719242cb34e6e9d68a6a3d7"
    "dac426defe3cfaf7fffbfe7ffbffdffffffcfffe6ffff4bfff9ffffa3fffd3ffff53fffd5ffffb3fffeb7fffdaffff"
    "b7ffff73fffeeffffdeffffebffffbfffffd9ffffdbfffebffffe0ffffeeffffc3ffff8bffff1ffffe4fffee7fffb1"
    "ffff97fffd9ffffcdffff9fffffbffffdafffeeffff4ffffb7fffee7fffe8ffffd3fffdeffffd5fffeeffffbdffffe"
    "1fffdfffff7fffff5ffffecffff07fff87fffe0ffff17fffedffff87ffff77fffeffffeaffff8bfffe3ffff93ffff8"
    "7fffcbffff37ffff1fffff83ffffe1fffebfffe3ffff3fffff2ffffa3ffffd9fffff17ffffc7fffff27ffffdefffff"
    "bffffff2fffff8fffffb7fff97fff8fffffe6fffffc1fffff87ffffe7fffffc5ffffe5fffe4ffff2fffffd1fffff4f"
    "fffffefffffe3fffffc9fffff97fffb3ffffcffffb7fffcdffff4ffff9ffffd1ffffcffffeaffffafffffddffffeff"
    "ffff4fffff5fffffabffffa7ffffd7fffff9bffffecfffffb7fffff3fffffe8fffffd3fffffabfffff5fffffff7fff"
    "fecfffffdbfffffbbfffff7ffffff0fffffbbf"
)


def _integer(value: int, bits: int, first: int = 0) -> bytes:
    """An integer as section 5.1 describes it, behind bits that say what it is for."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    out, value = bytearray((first | most,)), value - most
    while value >= 128:
        out.append(value % 128 + 128)
        value //= 128
    return bytes((*out, value))


def _packed(data: bytes) -> bytes:
    """A text with its length, in Huffman's code."""
    return _integer(len(data), 7, 0x80) + data


@pytest.mark.parametrize(
    ("block", "headers"),
    [
        ("400a637573746f6d2d6b65790d637573746f6d2d686561646572", {"custom-key": "custom-header"}),
        ("040c2f73616d706c652f70617468", {":path": "/sample/path"}),
        ("100870617373776f726406736563726574", {"password": "secret"}),
        ("82", {":method": "GET"}),
    ],
    ids=["C.2.1", "C.2.2", "C.2.3", "C.2.4"],
)
def test_each_form_of_a_header_is_read(block: str, headers: dict[str, str]) -> None:
    assert read_block(bytes.fromhex(block)) == headers


def test_a_first_request_is_read() -> None:
    """C.3.1 in plain text and C.4.1 in Huffman's code."""
    expected = {
        ":method": "GET",
        ":scheme": "http",
        ":path": "/",
        ":authority": "www.example.com",
    }
    plain = bytes.fromhex("828684410f7777772e6578616d706c652e636f6d")
    assert read_block(plain) == expected
    assert read_block(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")) == expected


def test_a_first_response_is_read() -> None:
    """C.6.1, before which the server said that it keeps no table."""
    block = bytes.fromhex(
        "20488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff"
        "6e919d29ad171863c78f0b97c8e9ae82ae43d3"
    )
    assert read_block(block) == {
        ":status": "302",
        "cache-control": "private",
        "date": "Mon, 21 Oct 2013 20:13:21 GMT",
        "location": "https://www.example.com",
    }


@pytest.mark.parametrize(
    ("index", "header"),
    [
        (1, (":authority", "")),
        (7, (":scheme", "https")),
        (8, (":status", "200")),
        (14, (":status", "500")),
        (16, ("accept-encoding", "gzip, deflate")),
        (31, ("content-type", "")),
        (58, ("user-agent", "")),
        (61, ("www-authenticate", "")),
    ],
)
def test_a_header_with_a_number_of_its_own_is_known(index: int, header: tuple[str, str]) -> None:
    assert read_block(_integer(index, 7, 0x80)) == dict([header])


@pytest.mark.parametrize("block", ["80", "be", "ffff7f", "7f00", "0f2f00"])
def test_a_number_outside_the_table_is_malformed(block: str) -> None:
    with pytest.raises(Malformed):
        read_block(bytes.fromhex(block))


def test_all_bytes_are_read_from_huffmans_code() -> None:
    assert read_block(b"\x10\x01x" + _packed(ALL_PACKED)) == {"x": bytes(range(256)).decode("l1")}


def test_the_code_leaves_no_gap_but_for_the_mark_of_the_end() -> None:
    words = list(hpack._codes())
    spread = sum(1 << (30 - len(word)) for word in words)
    assert (len(words), spread) == (256, (1 << 30) - 1)
    assert "1" * 30 not in words


@given(st.binary(max_size=100))
def test_a_packed_text_is_read_as_it_was_written(text: bytes) -> None:
    words = {symbol: word for word, symbol in hpack._codes().items()}
    bits = "".join(words[symbol] for symbol in text)
    bits += "1" * (-len(bits) % 8)
    packed = int(bits or "0", 2).to_bytes(len(bits) // 8, "big")
    assert read_block(b"\0\x01x" + _packed(packed)) == {"x": text.decode("l1")}


@pytest.mark.parametrize(
    "packed",
    ["18", "1f00", "1fff", "ffffffff", "fffffffc", "ff" * 65_000],
    ids=["padding of noughts", "a nought", "eight ones", "the end", "half a word", "no word"],
)
def test_a_packed_text_that_ends_otherwise_is_malformed(packed: str) -> None:
    """Less than a byte of ones may stand behind the last word ("a" is 00011)."""
    assert read_block(b"\0\x01x\x81\x1f") == {"x": "a"}
    with pytest.raises(Malformed):
        read_block(b"\0\x01x" + _packed(bytes.fromhex(packed)))


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 254, 255, 256, 16_510, 16_511, 70_000])
def test_the_length_of_a_text_is_read_as_it_was_written(size: int) -> None:
    block = write_block([("x", "y" * size), ("z", "")])
    assert read_block(block) == {"x": "y" * size, "z": ""}
    assert block[3:].startswith(_integer(size, 7))


def test_integers_are_written_as_in_the_examples() -> None:
    """C.1: 10 and 1337 behind three bits, 42 behind none."""
    assert hpack._integer(10, 5) == b"\x0a"
    assert hpack._integer(1337, 5) == b"\x1f\x9a\x0a"
    assert hpack._integer(42, 8) == b"\x2a"
    assert hpack._integer_at(b"\x1f\x9a\x0a", 0, 5) == (1337, 3)


@given(st.integers(0, 2**32 - 1), st.integers(4, 7))
@example(2**32 - 1, 4)
def test_every_integer_is_read_as_it_was_written(value: int, bits: int) -> None:
    written = hpack._integer(value, bits)
    assert written == _integer(value, bits)
    assert hpack._integer_at(b"?" + written + b"?", 1, bits) == (value, 1 + len(written))


def test_an_integer_that_does_not_end_is_malformed() -> None:
    with pytest.raises(Malformed, match="too large"):
        read_block(b"\xff" + b"\x80" * 20 + b"\x01")


def test_a_block_that_was_cut_short_is_malformed() -> None:
    parts = [b"\x88", write_block([("grpc-status", "0")]), b"\x5f\x10application/grpc"]
    whole = b"".join(parts)
    borders = (0, len(parts[0]), len(parts[0] + parts[1]))
    for size in range(len(whole)):
        if size in borders:
            assert len(read_block(whole[:size])) == borders.index(size)
        else:
            with pytest.raises(Malformed):
                read_block(whole[:size])


def test_only_a_table_of_no_size_may_be_kept() -> None:
    assert read_block(b"\x20\x88") == {":status": "200"}
    for block in (b"\x21\x88", b"\x3f\xe1\x1f\x88"):
        with pytest.raises(Malformed, match="remember"):
            read_block(block)


def test_of_two_headers_with_one_name_the_last_counts() -> None:
    assert read_block(write_block([("x", "1"), ("x", "2")])) == {"x": "2"}


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=300)), max_size=5))
def test_headers_are_read_as_they_were_written(headers: list[tuple[str, str]]) -> None:
    as_read = {name.encode().decode("l1"): value.encode().decode("l1") for name, value in headers}
    assert read_block(write_block(headers)) == as_read


_FIRSTS = [b"\x88", b"\x20", b"\x00\x01x", b"\x40\x01x", b"\x10\x81\x1f", b"\x5f", b"\x0f\x00"]


@given(st.lists(st.sampled_from(_FIRSTS) | st.binary(max_size=30), max_size=6))
def test_any_bytes_are_headers_or_malformed(parts: list[bytes]) -> None:
    try:
        headers = read_block(reduce(bytes.__add__, parts, b""))
    except Malformed:
        return
    assert all(isinstance(text, str) for pair in headers.items() for text in pair)
