"""More time to claim a lock, for checks of the order of waiters.

Who was handed a lock has half a second to claim it, and is passed over then: other waiters must not
wait for one that stands still. A busy machine may keep one from running for longer, and a check
would see another order, rightly.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencelock.engines import units
from fencelock.engines.mysql import lease_sql, share_sql
from fencelock.engines.postgresql import statements
from fencelock.engines.sqlite import shares, transactions
from fencelock.testing.conformance import Check

CLAIM_S = 20.0
TABLE = {"table": "fencelock_unhurried"}  # the functions of the others have their time written in
OF_ORDER = {
    "a_newcomer_does_not_overtake",
    "a_semaphore_serves_waiters_in_order",
    "a_waiter_keeps_its_place",
    "a_waiting_writer_is_not_overtaken",
    "waiters_are_served_in_order",
}
IN_TABLE = {"postgresql push=no", "postgresql pgbouncer"}


def more_time(check: Check, variant: str, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give waiters more time if the check is of their order; the options that this takes."""
    if check.name not in OF_ORDER:
        return {}
    for module in (units, shares, transactions):
        patch.setattr(module, "CLAIM_S", CLAIM_S)
    for module in (lease_sql, share_sql):
        patch.setattr(module, "CLAIM_US", int(CLAIM_S * 1e6))
    if variant not in IN_TABLE:
        return {}
    patch.setitem(statements.FILLED_IN, "claim", CLAIM_S)
    return TABLE
