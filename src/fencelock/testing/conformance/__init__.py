"""The promises of every engine, as checks that anyone can run on an engine of their own.

With any test runner; here pytest, with an engine that is not even registered yet:

    import pytest
    from fencelock.testing import conformance
    from mylocks import MyEngine

    @pytest.mark.parametrize("flavor", conformance.FLAVORS)
    @pytest.mark.parametrize("check", conformance.checks(), ids=str)
    def test_my_engine_keeps_its_promises(check, flavor):
        conformance.run(lambda: "mine://localhost:1234", flavor, check, engine=MyEngine)

From a shell, with an engine that is registered:

    python -m fencelock.testing.conformance sqlite:////tmp/locks.db

A check is written once, as ``async def check(context)``, and runs in both flavors: awaited by
asyncio, and under threads with a blocking client whose methods can be awaited (``async_adapter`` in
``context.py``). It uses names of its own, so a store may be shared. A check of what the engine does
not promise raises NotApplicable, which pytest and unittest report as skipped.
"""

from __future__ import annotations

from .check import FLAVORS, Broken, Check, Flavor, NotApplicable
from .context import CheckContext
from .runner import Report, Result, Target, checks, run, run_all

__all__ = [
    "FLAVORS",
    "Broken",
    "Check",
    "CheckContext",
    "Flavor",
    "NotApplicable",
    "Report",
    "Result",
    "Target",
    "checks",
    "run",
    "run_all",
]
