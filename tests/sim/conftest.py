"""Simulated clients lose leases by the thousand: their warnings are not for the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("fencelock")
    logger.disabled = True
    yield
    logger.disabled = False
