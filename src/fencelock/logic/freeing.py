"""Giving a lock back, whatever becomes of the answer."""

from __future__ import annotations

from ..engine import Engine
from ..errors import OutcomeUnknown
from . import policy
from .tenure import Tenure


async def free(engine: Engine, tenure: Tenure) -> bool:
    """Ask the engine to free it. No answer is resolved by asking again."""
    grant = tenure.grant
    for attempt in range(1, policy.UNKNOWN_TRIES + 1):
        try:
            freed = await engine.release(grant)
        except OutcomeUnknown as error:
            tenure.owed = True
            if attempt == policy.UNKNOWN_TRIES:
                raise OutcomeUnknown(
                    f"the release of {grant.name!r} was not answered ({error}): "
                    f"the lock frees itself within {grant.ttl:g} s at the latest",
                    until=grant.ttl,
                ) from error
            continue
        except BaseException:
            tenure.owed = True
            raise
        if tenure.rare is not None:
            tenure.owed = False
        # After a try without an answer, "not yours" most likely means that it was heard.
        return freed or (attempt > 1 and tenure.loss is None)
    raise AssertionError("unreachable")
