"""``fencelock show NAME``: holder, age, time left, fence and queue of one lock."""

from __future__ import annotations

import argparse
import sys

from ...model import Holding, State
from .. import codes, terminal
from ..acquisition import who
from ..clock import brief
from ..listing import holding_facts, table, waiting_facts, words_of
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
    """One lock for programs."""
    return {
        "name": state.name,
        "held": bool(state.holders),
        "holders": [holding_facts(holding) for holding in state.holders],
        "waiters": [waiting_facts(waiting) for waiting in state.waiters],
    }


def _left(holding: Holding) -> str:
    """A renewal may give more time than the lease began with; a key without expiry never ends."""
    if not holding.ttl and holding.meta.get("expiry") == "none":
        return "without end: it is not a lease, but a key without expiry"
    left = brief(holding.remaining)
    return f"{left} of {brief(holding.ttl)}" if holding.remaining <= holding.ttl else left


def words(state: State) -> list[str]:
    """One lock for people."""
    wanted = terminal.colors(sys.stdout)
    free = terminal.paint("free", "green", wanted)
    lines = [] if state.holders else [f"{terminal.fitting(state.name)} is {free}"]
    for holding in state.holders:
        held = terminal.paint("held", "yellow", wanted)
        lines += [
            f"{terminal.fitting(state.name)} is {held} by {terminal.fitting(who(holding.meta))}",
            f"  for      {brief(holding.age)}",
            f"  left     {_left(holding)}, unless it is renewed",
            f"  fence    {holding.fence}",
        ]
        if extra := words_of(holding.meta):
            lines.append(f"  meta     {terminal.fitting(extra)}")
    if state.waiters:
        rows = [
            (str(position), who(waiting.meta), brief(waiting.age), words_of(waiting.meta))
            for position, waiting in enumerate(state.waiters, 1)
        ]
        lines += ["", *table(("PLACE", "WAITER", "FOR", ""), rows)]
    return lines
