"""A busy machine stands still for longer than a caller would be made to wait past its deadline."""

from __future__ import annotations

import pytest

from fencelock._client import acquire, attempt_all, client, lease_lifecycle
from fencelock.recipes import barrier, board, latch, once, several

GRACE_S = 10.0


@pytest.fixture(autouse=True)
def _time_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what has begun end, however long the machine takes."""
    recipes = (barrier, board, latch, once, several)
    for module in (acquire, attempt_all, client, lease_lifecycle, *recipes):
        monkeypatch.setattr(module, "GRACE_S", GRACE_S)
