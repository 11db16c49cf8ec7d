"""Show holders and waiters as facts for programs and as tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..model import Holding, Meta, Waiting
from . import terminal
from .acquisition import who
from .clock import brief

_OWN_WORDS = {"host", "pid", "thread", "task", "command"}


def holding_facts(holding: Holding) -> dict[str, object]:
    """One holder for programs."""
    return {
        "name": holding.name,
        "fence": holding.fence,
        "ttl_s": round(holding.ttl, 6),
        "age_s": round(holding.age, 6),
        "remaining_s": round(holding.remaining, 6),
        "meta": dict(holding.meta),
    }


def waiting_facts(waiting: Waiting) -> dict[str, object]:
    """One waiter for programs."""
    return {"age_s": round(waiting.age, 6), "meta": dict(waiting.meta)}


def words_of(meta: Meta) -> str:
    """What the holder itself added with --meta."""
    return " ".join(f"{key}={value}" for key, value in meta.items() if key not in _OWN_WORDS)


def holdings_table(holdings: Sequence[Holding]) -> list[str]:
    """Holders for people, with a head."""
    rows = [
        (h.name, who(h.meta), brief(h.age), brief(h.remaining), str(h.fence), words_of(h.meta))
        for h in holdings
    ]
    return table(("NAME", "HOLDER", "FOR", "LEFT", "FENCE", ""), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns, as wide as their cells."""
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
    stream = sys.stdout
    lines = [terminal.printable(line, stream) for line in lines]
    return [terminal.paint(lines[0], "bold", terminal.colors(stream)), *lines[1:]]
