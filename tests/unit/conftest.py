"""A client whose time moves by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fencelock
from fencelock import testing
from fencelock.testing import Clock

Made = tuple[fencelock.Client, Clock]


@pytest.fixture
def made() -> Iterator[Made]:
    client, clock = testing.client()
    yield client, clock
    client.close()
