"""What the docstrings of `fencelock.testing` show is what happens."""

from __future__ import annotations

import doctest

import pytest

from fencelock import testing
from fencelock.testing import clients


@pytest.mark.parametrize("module", [testing, clients])
def test_the_examples_run(module: object) -> None:
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)  # type: ignore[arg-type]
    assert results.attempted > 5
    assert results.failed == 0
