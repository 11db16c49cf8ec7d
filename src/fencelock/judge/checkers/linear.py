"""The search for one order of the operations that explains all answers of a lock (linearizability).

The specification is a lock that is free or held by one acquisition. An operation takes effect at
one moment between its invocation and its end; one whose outcome is unknown does so at any later
moment, or never. A lease may end by itself once there is a reason: its holder gave it up, was told,
paused or killed, or its end is not known.

The search goes through the events in their order (Wing and Gong; Lowe's form of it) and keeps every
state that can explain what was seen so far. A state is the holder of the lock and the set of
pending operations that have happened. Of two states that differ only in the optional operations
that have happened, the one with fewer can explain all that the other can, so it alone is kept.
"""

from __future__ import annotations

from typing import NamedTuple

from ..history import History, Operation, Violation
from ..promises import Promises
from .tenures import NEVER, Tenure, Tenures, Troubles, locks

STATES_MAX = 10_000
FREE = 0


class Undecided(Exception):
    """The search was given up: too many orders are possible."""


class _Step(NamedTuple):
    """One thing that may take effect: an operation, or the expiry of a lease."""

    key: int
    what: str
    """acquire, release, renew, or expire."""
    holder: int
    """The acquisition that it is about."""
    begin: float
    end: float
    events: tuple[int, ...]


class _State(NamedTuple):
    holder: int
    done: frozenset[int]
    """Pending operations that have happened and have yet to end."""
    spent: frozenset[int]
    """Optional steps that have happened."""


def linearizable(history: History, promises: Promises) -> list[Violation]:
    """Find an order for each mutex, or the event at which there is none."""
    troubles = Troubles(history, promises)
    found: list[Violation] = []
    for lock in locks(history, "lock"):
        steps = _steps(lock, troubles)
        violation = _search(lock.name, steps, history)
        found += [violation] if violation else []
    return found


def _steps(lock: Tenures, troubles: Troubles) -> list[_Step]:
    keys = iter(range(1, 1 << 62))
    steps: list[_Step] = []
    holders: dict[int, Tenure] = {}
    for tenure in lock.tenures:
        holder = tenure.events[0] + 1  # the index of its invocation, and never FREE
        holders[holder] = tenure
        steps.append(
            _Step(
                next(keys), "acquire", holder, tenure.asked_at, tenure.granted_at, tenure.events[:2]
            )
        )
        over = _may_end_at(tenure, troubles)
        if over < NEVER:
            steps.append(_Step(next(keys), "expire", holder, over, NEVER, ()))
    for one in lock.acquires:
        if one.outcome in ("unknown", "open"):
            holder = one.events[0] + 1
            steps.append(_Step(next(keys), "acquire", holder, one.begin, NEVER, one.events))
            steps.append(_Step(next(keys), "expire", holder, one.begin, NEVER, ()))
    for one in [*lock.releases, *lock.renewals]:
        holder = _holder_of(one, holders)
        if holder and one.outcome != "fail":
            end = NEVER if one.outcome != "ok" else one.end
            steps.append(_Step(next(keys), one.verb, holder, one.begin, end, one.events))
    return steps


def _may_end_at(tenure: Tenure, troubles: Troubles) -> float:
    """Return the moment from which on the engine may have ended a lease by itself."""
    pauses = [
        max(pause.begin, tenure.asked_at)
        for pause in troubles.pauses(tenure.client)
        if pause.end >= tenure.asked_at
    ]
    reasons = [tenure.lost_at, tenure.told_at, tenure.crashed_at, *pauses]
    if not tenure.gave_back:
        reasons.append(tenure.left_at)
    return min(reasons)


def _holder_of(one: Operation, holders: dict[int, Tenure]) -> int:
    """Return the acquisition that an operation is about: by fence, else its client's latest."""
    found = 0
    for holder, tenure in holders.items():
        if tenure.client == one.client and tenure.granted_at <= one.begin:
            if one.fence and tenure.fence == one.fence:
                return holder
            found = holder if not one.fence else found
    return found


def _search(name: str, steps: list[_Step], history: History) -> Violation | None:
    moments = [(step.begin, 0, step.key) for step in steps]
    moments += [(step.end, 1, step.key) for step in steps if step.end < NEVER]
    by_key = {step.key: step for step in steps}
    pending: dict[int, _Step] = {}
    states = {_State(FREE, frozenset(), frozenset())}
    for at, is_end, key in sorted(moments):
        step = by_key[key]
        if not is_end:
            pending[key] = step
            continue
        reached = _explore(states, pending)
        states = {state._replace(done=state.done - {key}) for state in reached if key in state.done}
        del pending[key]
        if not states:
            client = history[step.events[0]].client
            return Violation(
                "linearizable",
                f"no order of what was asked explains that the {step.what} of {name!r} by {client} "
                f"succeeded at {at:.6f} s",
                step.events,
            )
    return None


def _explore(states: set[_State], pending: dict[int, _Step]) -> set[_State]:
    """Return all states that can be reached by letting pending operations happen."""
    kept: dict[tuple[int, frozenset[int]], list[frozenset[int]]] = {}
    fresh, count = list(states), 0
    while fresh:
        state = fresh.pop()
        alike = kept.setdefault((state.holder, state.done), [])
        if any(spent <= state.spent for spent in alike):
            continue
        alike[:] = [spent for spent in alike if not state.spent <= spent]
        alike.append(state.spent)
        count += 1
        if count > STATES_MAX:
            raise Undecided(f"more than {STATES_MAX} states explain what was seen so far")
        fresh += [after for step in pending.values() if (after := _after(state, step))]
    return {_State(*key, spent) for key, alike in kept.items() for spent in alike}


def _after(state: _State, step: _Step) -> _State | None:
    """Return the state after a step, or None if it cannot have happened."""
    if step.key in state.done or step.key in state.spent:
        return None
    if step.what == "acquire":
        if state.holder != FREE:
            return None
        holder = step.holder
    elif state.holder != step.holder:
        return None
    else:
        holder = state.holder if step.what == "renew" else FREE
    if step.end < NEVER:
        return _State(holder, state.done | {step.key}, state.spent)
    return _State(holder, state.done, state.spent | {step.key})
