"""The promises every engine makes, as checks that anybody can run over an engine of their own.

With any test runner; here pytest, over an engine that is not even registered yet:

    import pytest
    from fencelock.testing import conformance
    from mylocks import MyEngine

    @pytest.mark.parametrize("flavor", conformance.FLAVORS)
    @pytest.mark.parametrize("check", conformance.checks(), ids=str)
    def test_my_engine_keeps_its_promises(check, flavor):
        conformance.run(lambda: "mine://localhost:1234", flavor, check, engine=MyEngine)

From a shell, over an engine that is registered:

    python -m fencelock.testing.conformance sqlite:////tmp/locks.db

A check is written once, as ``async def check(kit)``, and runs in both flavors: awaited by asyncio,
and under threads through a face of the blocking client (``awaited.py``). It uses names of its own,
so a store may be shared. A check that asks for what the engine does not promise raises
NotApplicable, which pytest and unittest report as skipped.
"""

from __future__ import annotations

from .check import Broken, Check, NotApplicable
from .kit import FLAVORS, Flavor, Kit
from .runner import Report, Result, Target, checks, run, run_all

__all__ = [
    "FLAVORS",
    "Broken",
    "Check",
    "Flavor",
    "Kit",
    "NotApplicable",
    "Report",
    "Result",
    "Target",
    "checks",
    "run",
    "run_all",
]
