"""The fixture ``faults``, for pytest: available wherever fencelock is installed.

pytest imports this module whenever it starts. So nothing else is imported before a test uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .faults import Faults


@pytest.fixture
def faults() -> Iterator[Faults]:
    """Inject faults into clients of a memory engine: see fencelock.testing.faults."""
    from .faults import Faults

    made = Faults()
    yield made
    made.close()
