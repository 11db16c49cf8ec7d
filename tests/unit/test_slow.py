"""What ``make test`` leaves out is there: a test that was renamed is not forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import slow

TESTS = Path(slow.__file__).parent


@pytest.mark.parametrize("where", slow.SLOW)
def test_a_slow_test_is_there(where: str) -> None:
    file, _, name = where.partition("::")
    assert not name or f"def {name}(" in (TESTS / file).read_text(encoding="utf-8")
    assert (TESTS / file).is_file()
