"""Release a lock, and retry when no reply comes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .. import observe
from ..engine import Engine
from ..errors import FencelockError, OutcomeUnknown, Unavailable
from ..world import World
from . import policy
from .events import timed
from .hold_state import HoldState
from .pending import Pending, is_definite
from .validation import TTL_MIN_S


async def give_back(world: World, engine: Engine, hold: HoldState) -> bool:
    """Release a lock, or have it end with its min_hold; False when it is not ours."""
    rest = hold.min_until - world.now()
    if rest <= 0 or hold.loss is not None:
        if observe.callers and hold.rare is not None:
            return await timed(world, engine, engine.release, hold.grant)
        return await engine.release(hold.grant)
    return await engine.end_in(hold.grant, max(rest, TTL_MIN_S))


async def free(
    world: World, engine: Engine, pending: Pending, hold: HoldState, began: float
) -> bool:
    """Release a hold; ``began`` is now. A missing reply is resolved by a retry."""
    try:
        if hold.rare is None:  # as most are
            freed = await engine.release(hold.grant)
        else:
            freed = await give_back(world, engine, hold)
    except BaseException as error:
        return await free_again(world, engine, pending, hold, began, error)
    if hold.rare is not None:
        settle(pending, hold)
    return freed


async def free_all(
    world: World, engine: Engine, pending: Pending, holds: Sequence[HoldState], began: float
) -> list[bool]:
    """Release several holds in one request, where the engine can; ``began`` is now.

    All are tried; then the first failure is raised.
    """
    answers: list[bool] | None = None
    error: BaseException | None = None
    try:
        grants = [hold.grant for hold in holds]
        if observe.callers:
            answers = await timed(world, engine, engine.release_all, grants)
        else:
            answers = await engine.release_all(grants)
    except BaseException as raised:
        error = raised
    if answers is not None:
        return answers
    freed, failure = list[bool](), None
    for hold in holds:
        try:
            if error is None:
                freed.append(await free(world, engine, pending, hold, began))
            else:
                freed.append(await free_again(world, engine, pending, hold, began, error))
        except BaseException as raised:
            failure = failure or raised
    try:
        if failure is not None:
            raise failure
    finally:
        del error, failure  # their tracebacks have this frame
    return freed


async def free_again(
    world: World,
    engine: Engine,
    pending: Pending,
    hold: HoldState,
    began: float,
    error: BaseException,
) -> bool:
    """Go on after a release has raised: retry it where its outcome is unknown.

    A release that is not confirmed in time goes on in the background, and so its outcome is unknown
    even if nothing has happened yet. Only where a release commits work is a definite failure raised
    as such.

    "Not yours" after a request without an answer does not say which came first: the
    request took effect, or the lock had been revoked before it. The first is presumed, because the
    second would have callers run their work again; the event ``released`` says that it is not
    proved. In either case the lock is not held by us any more.
    """
    if observe.callers and hold.rare is None:  # else give_back has emitted the call
        observe.emit_call(engine.address.scheme, "release", world.now() - began, error)
    hold.owed = True
    grant, unknown = hold.grant, isinstance(error, OutcomeUnknown)
    for _ in range(1, policy.UNKNOWN_TRIES if unknown else 1):
        if world.now() >= min(began + policy.RELEASE_S, world.limit()):
            break
        try:
            freed = await give_back(world, engine, hold)
        except (OutcomeUnknown, Unavailable) as failure:
            error = failure
            continue
        except BaseException as failure:
            if engine.commits and is_definite(failure):
                raise  # the engine has looked it up: the work was not committed
            error = failure
            break
        settle(pending, hold)
        # Not presumed if the lease had expired before: then another may hold the lock.
        hold.presumed = not freed and hold.loss is None and began < hold.valid_until()
        return freed or hold.presumed
    try:
        if not unknown and (engine.commits or is_definite(error)):
            raise error
        release_later(world, engine, pending, hold)
        if not isinstance(error, FencelockError):
            raise error  # Ctrl-C, or an exception of another signal handler: it is the caller's
        until = max(grant.ttl + hold.delay, hold.min_until - world.now())
        raise OutcomeUnknown(
            f"the release of {grant.name!r} was not confirmed ({error}): it goes on in the "
            f"background (client.owed), and the lock frees itself within {until:g} s at the latest",
            until=until,
        ) from error
    finally:
        del error  # its traceback has this frame: the two would keep each other alive


def release_later(world: World, engine: Engine, pending: Pending, hold: HoldState) -> None:
    """Go on with the release of a hold in the background."""
    call = partial(give_back, world, engine, hold)
    pending.release(hold.grant, call, partial(settle, pending, hold))


def settle(pending: Pending, hold: HoldState) -> None:
    """Note that the engine has confirmed a release."""
    hold.owed = False
    pending.forget(hold.grant.owner)
