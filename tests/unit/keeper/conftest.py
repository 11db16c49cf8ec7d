"""Each test has a desk of its own, and its log is nobody's."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.unit.keeper.desk import Desk


@pytest.fixture
def desk() -> Iterator[Desk]:
    logger = logging.getLogger("fencelock")
    logger.disabled = True
    desk = Desk()
    with desk.simulation:
        yield desk
    logger.disabled = False
