"""Show holders and waiters as facts for programs and as tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..model import ELECTION, RECIPE, Holding, Meta, State, Waiting
from . import terminal
from .acquisition import who
from .clock import brief

SHORT = 8  # the smallest width to which a column is shortened
GAP = 2
_ELASTIC = ("NAME", "HOLDER", "WAITER", "")  # columns that a narrow terminal shortens
_OWN_WORDS = {"host", "pid", "thread", "task", "command"}


def holding_facts(holding: Holding) -> dict[str, object]:
    """Describe a holder in JSON values, for programs."""
    return {
        "name": holding.name,
        "kind": holding.kind,
        "role": holding.role,
        "slot": holding.slot,
        "limit": holding.limit,
        "election": holding.election,
        "fence": holding.fence,
        "ttl_s": round(holding.ttl, 6),
        "age_s": round(holding.age, 6),
        "remaining_s": round(holding.remaining, 6),
        "meta": dict(holding.meta),
    }


def waiting_facts(waiting: Waiting) -> dict[str, object]:
    """Describe a waiter in JSON values, for programs."""
    return {
        "kind": waiting.kind,
        "role": waiting.role,
        "election": waiting.election,
        "age_s": round(waiting.age, 6),
        "meta": dict(waiting.meta),
    }


def words_of(meta: Meta) -> str:
    """Format the metadata that the holder itself added, as with --meta."""
    return " ".join(
        f"{key}={value}"
        for key, value in meta.items()
        if key not in _OWN_WORDS and (key, value) != (RECIPE, ELECTION)
    )


def held_as(holding: Holding) -> str:
    """Say in a word or two how a name is held."""
    if holding.role == "semaphore":
        number = "?" if holding.slot is None else holding.slot
        return f"slot {number}" + (f" of {holding.limit}" if holding.limit else "")
    if holding.role == "lock":
        return "leader" if holding.election else "lock"
    return "reader" if holding.role == "read" else "writer"


def holdings_table(holdings: Sequence[Holding]) -> list[str]:
    """Format holders as a table for people, with a header."""
    rows = [(holding.name, held_as(holding), *_cells(holding)) for holding in holdings]
    return table(("NAME", "AS", "HOLDER", "FOR", "LEFT", "FENCE", ""), rows)


def slots_table(state: State) -> list[str]:
    """Format the holders of one semaphore as a table for people."""
    rows = [("?" if h.slot is None else str(h.slot), *_cells(h)) for h in state.holders]
    return table(("SLOT", "HOLDER", "FOR", "LEFT", "FENCE", ""), rows)


def readers_table(state: State) -> list[str]:
    """Format the holders of one read/write lock as a table for people."""
    rows = [(held_as(holding), *_cells(holding)) for holding in state.holders]
    return table(("AS", "HOLDER", "FOR", "LEFT", "FENCE", ""), rows)


def queue_table(state: State) -> list[str]:
    """Format the waiters of one queue as a table; of a read/write lock, with the side they want."""
    wanted = any(waiting.kind == "rwlock" for waiting in state.waiters)
    rows = [
        (
            str(position),
            *([waiting.role] if wanted else []),
            who(waiting.meta),
            brief(waiting.age),
            words_of(waiting.meta),
        )
        for position, waiting in enumerate(state.waiters, 1)
    ]
    return table(("POS", *(["TO"] if wanted else []), "WAITER", "FOR", ""), rows)


def _cells(holding: Holding) -> tuple[str, ...]:
    left = brief(holding.remaining)
    if is_endless(holding):
        left = "no end"
    return (
        who(holding.meta),
        brief(holding.age),
        left,
        str(holding.fence),
        words_of(holding.meta),
    )


def is_endless(holding: Holding) -> bool:
    """Return whether another program holds the lock by a key without expiry."""
    return not holding.ttl and holding.meta.get("expiry") == "none"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format rows in columns that are as wide as their cells.

    On a terminal that is too narrow, long cells are shortened; if that is not enough, the last
    columns are left out.
    """
    stream = sys.stdout
    cells = [list(head), *(list(row) for row in rows)]
    widths = _widths(cells, terminal.size(stream)[0] if terminal.is_terminal(stream) else None)
    gap = " " * GAP
    lines = [
        gap.join(padded(shortened(c, w), w) for c, w in zip(row, widths, strict=False)).rstrip()
        for row in cells
    ]
    lines = [terminal.printable(line, stream) for line in lines]
    return [terminal.paint(lines[0], "bold", terminal.colors(stream)), *lines[1:]]


def _widths(cells: Sequence[Sequence[str]], columns: int | None) -> list[int]:
    """Return the width of each column that is shown."""
    widths = [max(map(terminal.width, column)) for column in zip(*cells, strict=True)]
    if not widths[-1]:
        widths.pop()
    if columns is None:
        return widths
    heads = cells[0][: len(widths)]
    least = [
        min(width, SHORT) if head in _ELASTIC else width
        for head, width in zip(heads, widths, strict=True)
    ]
    while len(least) > 1 and sum(least) + GAP * (len(least) - 1) > columns:
        least.pop()
    widths = widths[: len(least)]
    while sum(widths) + GAP * (len(widths) - 1) > columns and widths != least:
        longer = [at for at, low in enumerate(least) if widths[at] > low]
        widths[max(longer, key=lambda at: (not heads[at], widths[at]))] -= 1  # meta before names
    return widths


def padded(text: str, width: int) -> str:
    """Pad a text with spaces to so many columns of a terminal."""
    return text + " " * (width - terminal.width(text))


def shortened(text: str, width: int) -> str:
    """Shorten a text to so many columns of a terminal: keep its beginning and its end."""
    if terminal.width(text) <= width:
        return text
    end = _beginning(text[::-1], (width - 1) // 2)[::-1]
    return f"{_beginning(text, width - 1 - terminal.width(end))}…{end}"


def _beginning(text: str, width: int) -> str:
    """Return as much of a text, from its beginning, as fits into so many columns."""
    size = len(text)
    while terminal.width(text[:size]) > width:
        size -= 1
    return text[:size]
