"""``fencelock watch [PREFIX]``: a live table on a terminal, one JSON object a change in a pipe."""

from __future__ import annotations

import argparse
import select
import sys
from collections.abc import Iterator, Sequence

from ...model import Holding
from .. import clock, codes, terminal
from ..clock import brief, seconds
from ..codes import BadArguments
from ..listing import holding_facts, holdings_table
from ..options import number_of, prefix_of
from ..signals import Signals

INTERVAL_MIN_S, INTERVAL_MAX_S = 0.01, 366 * 86_400.0


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("prefix", metavar="PREFIX", nargs="?", default="", help="names that begin with this")
    add("--interval", metavar="DUR", default="1s", help="look this often (default 1s)")
    add("--count", metavar="N", type=number_of(1, 10**9), help="look this many times, then end")


def main(options: argparse.Namespace) -> int:
    """Scan again and again until a signal comes, the reader is gone, or ``--count`` is reached."""
    from ..acquisition import reach

    prefix, interval = prefix_of(options.prefix), seconds(options.interval)
    if not INTERVAL_MIN_S <= interval <= INTERVAL_MAX_S:
        raise BadArguments(
            f"--interval is at least {brief(INTERVAL_MIN_S)} and at most 366d, not "
            f"{options.interval}"
        )
    show = _Table(prefix) if not options.json and terminal.is_terminal(sys.stdout) else _Stream()
    with Signals() as signals, reach(options, signals) as client:
        looks = 0
        while True:
            show.update(signals.call(lambda: client.scan(prefix), label="scan"), client.url)
            looks += 1
            if looks == options.count:
                return codes.OK
            if number := _nap(signals, clock.now() + interval):
                return codes.SIGNALLED + number


def _nap(signals: Signals, until: float) -> int:
    """Sleep; return the number of a signal that ends this process, or 0."""
    while (left := until - clock.now()) > 0:
        select.select([signals.fileno()], [], [], left)
        if number := signals.ending():
            return number
    return 0


class _Stream:
    """Prints one JSON object for each change."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], Holding] = {}

    def update(self, holdings: Sequence[Holding], url: str) -> None:
        for event, holding in self._changes(holdings):
            terminal.emit({"event": event, **holding_facts(holding)})

    def _changes(self, holdings: Sequence[Holding]) -> Iterator[tuple[str, Holding]]:
        present: dict[tuple[str, str, int], Holding]
        present = {(one.name, one.kind, one.fence): one for one in holdings}
        for key, holding in self._known.items():
            if key not in present:
                yield "freed", holding
        for key, holding in present.items():
            if key not in self._known:
                yield "held", holding
            elif self._known[key].role != holding.role:
                yield "changed", holding  # a writer has become a reader
        self._known = present


class _Table(_Stream):
    """Draws the whole table over the last one."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self._prefix = prefix

    def update(self, holdings: Sequence[Holding], url: str) -> None:
        columns, lines = terminal.size(sys.stdout)
        title = f"{url}  {len(holdings)} held" + (f" under {self._prefix!r}" * bool(self._prefix))
        rows = holdings_table(holdings) if holdings else ["nothing is held"]
        if len(rows) > (room := max(lines - 3, 2)):
            rows = [*rows[: room - 1], f"and {len(rows) - room + 1} more"]
        text = [terminal.printable(title, sys.stdout)[: columns - 1], "", *rows]
        sys.stdout.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in text) + "\x1b[J")
        sys.stdout.flush()
