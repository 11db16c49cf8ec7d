"""What is not to hang on a collection of garbage is looked at without one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class Local:
    """A value of a caller's, which lives as long as the traceback of an error that left it."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Cycles stay: what is in one lives on."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
