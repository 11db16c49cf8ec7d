"""Giving a lock back, whatever becomes of the answer."""

from __future__ import annotations

from ..engine import Engine
from ..errors import OutcomeUnknown
from . import policy
from .tenure import Tenure


async def free(engine: Engine, tenure: Tenure, began: float) -> bool:
    """Ask the engine to free it, which begins now. No answer is resolved by asking again."""
    try:
        freed = await engine.release(tenure.grant)
    except BaseException as error:
        return await free_again(engine, tenure, began, error)
    if tenure.rare is not None:
        tenure.owed = False
    return freed


async def free_again(engine: Engine, tenure: Tenure, began: float, error: BaseException) -> bool:
    """Go on after the engine has raised: ask again where nobody knows what it did."""
    tenure.owed = True
    if not isinstance(error, OutcomeUnknown):
        raise error
    grant, tries = tenure.grant, 1
    while True:
        tries += 1
        try:
            freed = await engine.release(grant)
        except OutcomeUnknown as unknown:
            if tries < policy.UNKNOWN_TRIES:
                continue
            raise OutcomeUnknown(
                f"the release of {grant.name!r} was not answered ({unknown}): "
                f"the lock frees itself within {grant.ttl:g} s at the latest",
                until=grant.ttl,
            ) from unknown
        tenure.owed = False
        # After a try without an answer, "not yours" most likely means that it was heard: unless the
        # lease was over before, and another may have come.
        return freed or (tenure.loss is None and began < tenure.valid_until())
