"""What stands in for packages in the browser, held against those packages."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

FILE = Path(__file__).parents[2] / "website" / "browser" / "python" / "hiredis.py"
WORDS = st.lists(st.binary(max_size=40) | st.text(max_size=20), min_size=1, max_size=6)


def standin() -> Any:
    spec = spec_from_file_location("hiredis_of_the_browser", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ours: Any = standin()
theirs: Any = hiredis


@given(st.lists(WORDS, max_size=4), st.integers(0, 400))
def test_requests_are_packed_and_read_as_hiredis_does(
    requests: list[list[bytes | str]], place: int
) -> None:
    packed = b"".join(ours.pack_command(tuple(words)) for words in requests)
    assert packed == b"".join(theirs.pack_command(tuple(words)) for words in requests)
    for parts in ((packed,), (packed[:place], packed[place:])):
        read: list[list[Any]] = []
        for reader in (ours.Reader(), theirs.Reader()):
            said: list[Any] = []
            for part in parts:
                reader.feed(part)
                while (one := reader.gets()) is not False:
                    said.append(one)
            read.append(said)
        assert read[0] == read[1]


def test_what_is_no_request_is_refused_by_both() -> None:
    for module in (ours, theirs):
        reader = module.Reader()
        reader.feed(b"?2\r\n")
        with pytest.raises(module.ProtocolError):
            reader.gets()
