"""Wait under threads for what another thread completes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....wires.thread_flag import ThreadFlag


async def wait(begin: Callable[[Callable[[Any], None]], object], seconds: float) -> bool:
    """Hand out a function that ends this wait, and say whether it was called in time."""
    flag = ThreadFlag()
    begin(lambda _: flag.set())
    return flag.wait(seconds)
