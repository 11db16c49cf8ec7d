"""``fencelock show NAME``: holder, age, time left, fence and queue of one lock."""

from __future__ import annotations

import argparse
import sys
from itertools import chain

from ...model import KINDS, Holding, State
from .. import codes, terminal
from ..acquisition import who
from ..clock import brief
from ..listing import (
    holding_facts,
    is_endless,
    queue_table,
    readers_table,
    slots_table,
    waiting_facts,
    words_of,
)
from ..options import connected, name_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the lock")


def main(options: argparse.Namespace) -> int:
    """Show one lock."""
    name = name_of(options.name)
    with connected(options) as client:
        state = client.inspect(name)
        if options.json:
            terminal.emit({"url": client.url, **facts(state)})
        else:
            terminal.lines(words(state))
    return codes.OK


def facts(state: State) -> dict[str, object]:
    """Describe one lock in JSON values, for programs."""
    kinds = {
        kind: {"held": len(one.holders), "limit": one.limit, "waiting": len(one.waiters)}
        for kind in KINDS
        if (one := state.of(kind)).holders or one.waiters
    }
    return {
        "name": state.name,
        "held": bool(state.holders),
        "kinds": kinds,
        "holders": [holding_facts(holding) for holding in state.holders],
        "waiters": [waiting_facts(waiting) for waiting in state.waiters],
    }


def _left(holding: Holding) -> str:
    """Describe the time left: a renewal may give more than the ttl; some keys have no expiry."""
    if is_endless(holding):
        return "without end: it is not a lease, but a key without expiry"
    left = brief(holding.remaining)
    return f"{left} of {brief(holding.ttl)}" if holding.remaining <= holding.ttl else left


def words(state: State) -> list[str]:
    """Describe one name for people: holders and waiters of each kind of lock that is in use."""
    name, wanted = terminal.fitting(state.name), terminal.colors(sys.stdout)
    parts: list[list[str]] = []
    for kind in KINDS:
        one = state.of(kind)
        if not one.holders and not one.waiters:
            continue
        if kind == "mutex":
            lines = _mutex(name, one, wanted)
        elif kind == "semaphore":
            lines = _semaphore(name, one, wanted)
        else:
            lines = _rwlock(name, one, wanted)
        parts.append([*lines, *(["", *queue_table(one)] if one.waiters else [])])
    if not parts:
        return [_free(name, wanted)]
    return [*parts[0], *chain.from_iterable(["", *part] for part in parts[1:])]


def _free(name: str, wanted: bool) -> str:
    return f"{name} is {terminal.paint('free', 'green', wanted)}"


def _mutex(name: str, state: State, wanted: bool) -> list[str]:
    lines = [] if state.holders else [_free(name, wanted)]
    for holding in state.holders:
        held = terminal.paint("led" if holding.election else "held", "yellow", wanted)
        lines += [
            f"{name} is {held} by {terminal.fitting(who(holding.meta))}",
            f"  for      {brief(holding.age)}",
            f"  left     {_left(holding)}, unless it is renewed",
            f"  fence    {holding.fence}",
        ]
        if extra := words_of(holding.meta):
            lines.append(f"  meta     {terminal.fitting(extra)}")
    return lines


def _semaphore(name: str, state: State, wanted: bool) -> list[str]:
    held, limit = len(state.holders), state.limit
    count = f"{held} of {limit}" if limit else f"{held}"
    color = "yellow" if limit is None or held >= limit else "green"
    held_of = terminal.paint(count, color, wanted)
    lines = [f"{name} is a semaphore: {held_of} slots are held"]
    return [*lines, *(slots_table(state) if held else [])]


def _rwlock(name: str, state: State, wanted: bool) -> list[str]:
    if not state.holders:
        return [f"{name} is a read/write lock: {terminal.paint('free', 'green', wanted)}"]
    number, role = len(state.holders), state.holders[0].role
    what = "reader" if role == "read" else "writer"
    held = terminal.paint(f"{number} {what}{'s' * (number > 1)}", "yellow", wanted)
    return [f"{name} is a read/write lock: held by {held}", *readers_table(state)]
