"""Read the arguments, run the scenario, and print what happens.

Exit codes: 0 the demo showed what it set out to show (with ``--unsafe``, the double sale), 1 it did
not, 2 the arguments are wrong, 128 + n a signal ended it.  All text of the demo is ASCII; other
characters in a message are replaced where they cannot be shown.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from .scenario import Interrupted, Plan, Scenario, Tone, Trouble
from .verdict import Verdict, judge, read_records
from .worker import LOCK, TTL_S, create

SEATS_MAX = 200
WORKERS_MIN, WORKERS_MAX = 2, 32  # one is frozen, another takes over
LAB = "Freeze a process yourself, and go back and forth in time: fencelock lab"
COLORS: dict[Tone, str] = {
    "plain": "",
    "faint": "\033[2m",
    "good": "\033[32m",
    "alarm": "\033[1;33m",
    "bad": "\033[1;31m",
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if not hasattr(signal, "SIGSTOP"):
        print("The demo freezes a process with SIGSTOP: it needs a POSIX system.", file=sys.stderr)
        return 1
    plan = Plan(options.seats, options.workers, options.unsafe, options.seconds_limit)
    timeline = Timeline(color=not options.no_color)
    scenario = Scenario(plan, timeline.event)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # then it is ignored on purpose
            signal.signal(number, scenario.interrupt)
    try:
        with folder_of_run(options.keep) as folder, scenario:
            verdict = run(plan, folder, scenario, timeline)
        report(plan, verdict, timeline, options.json)
    except Interrupted as interrupted:
        print(f"\nStopped by {interrupted}, with all workers.", file=sys.stderr)
        return 128 + interrupted.number
    except BrokenPipeError:  # stdout has no reader; keep the interpreter from complaining of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Trouble, OSError, sqlite3.Error) as error:
        print(f"\nThe demo could not be shown: {error}", file=sys.stderr)
        return 1
    return 1 if verdict.missing else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fencelock.demo",
        description="Processes sell the seats of one store under one lock.  One is frozen past its "
        "lease and writes late; the fence keeps the seat from being sold twice.",
    )
    add = parser.add_argument
    add("--unsafe", action="store_true", help="let the store ignore the fence")
    add("--no-color", action="store_true", help="print plain text, as with NO_COLOR=1")
    add("--seats", type=int, default=8, metavar="N", help="how many (default: %(default)s)")
    add("--workers", type=int, default=3, metavar="N", help="how many (default: %(default)s)")
    add("--seconds-limit", type=float, default=30, metavar="S", help="give up then (%(default)s)")
    add("--keep", type=Path, metavar="FOLDER", help="leave the files of the run in this folder")
    add("--json", type=Path, metavar="FILE", help="also write the summary to this file")
    options = parser.parse_args(arguments)
    if not 1 <= options.seats <= SEATS_MAX:
        parser.error(f"--seats must be from 1 to {SEATS_MAX}")
    if not WORKERS_MIN <= options.workers <= WORKERS_MAX:
        parser.error(f"--workers must be from {WORKERS_MIN} to {WORKERS_MAX}")
    if not 0 < options.seconds_limit <= 3600:
        parser.error("--seconds-limit must be above 0 and at most 3600")
    return options


@contextmanager
def folder_of_run(keep: Path | None) -> Generator[Path, None, None]:
    """Yield the user's folder, or a temporary one that is removed afterwards."""
    if keep is None:
        with TemporaryDirectory(prefix="fencelock-demo-", ignore_cleanup_errors=True) as folder:
            yield Path(folder).resolve()
        return
    keep.mkdir(parents=True, exist_ok=True)
    if any(keep.iterdir()):
        raise Trouble(f"the folder {keep} is not empty: name a new one to --keep")
    yield keep.resolve()


class Timeline:
    """Prints a line for each thing that happens: time, process and fence, in color if wanted."""

    def __init__(self, *, color: bool) -> None:
        refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"  # no-color.org
        self._color = color and not refused and sys.stdout.isatty()
        self._began_at = time.monotonic()
        if reconfigure := getattr(sys.stdout, "reconfigure", None):
            reconfigure(errors="replace")

    def event(self, who: str, what: str, tone: Tone, fence: int | None) -> None:
        seconds, number = time.monotonic() - self._began_at, "" if fence is None else str(fence)
        self.say(f"{seconds:5.2f}s  {who:<10}{number:>16}  {what}", tone)

    def say(self, text: str, tone: Tone = "plain") -> None:
        color = COLORS[tone] if self._color else ""
        print(f"{color}{text}\033[0m" if color else text, flush=True)


def run(plan: Plan, folder: Path, scenario: Scenario, timeline: Timeline) -> Verdict:
    """Play the scenario, then judge it by the store's records."""
    timeline.say(
        f"{plan.workers} processes sell {plan.seats} seats, taking turns under the lock {LOCK!r} "
        f"(ttl {TTL_S:g} s).\n"
        f"The store {'does NOT check the fence' if plan.unsafe else 'checks the fence'}."
    )
    timeline.say(f"\n  time  {'process':<10}{'fence':>16}  what happened", "faint")
    create(folder / "seats.db", plan.seats)
    scenario.play(folder)
    records = read_records(folder / "seats.db")
    return judge(plan.seats, plan.unsafe, records, scenario.late, scenario.loss_known)


def report(plan: Plan, verdict: Verdict, timeline: Timeline, file: Path | None) -> None:
    """Print the verdict, and write it to a file if one is named."""
    timeline.say("")
    for line in verdict.lines:
        timeline.say(line, "bad" if plan.unsafe or verdict.missing else "good")
    if verdict.missing:
        timeline.say("This is NOT what the demo set out to show:", "bad")
        for what in verdict.missing:
            timeline.say(f"  {what}", "bad")
    timeline.say(f"\n{LAB}", "faint")
    if file is not None:
        file.write_text(json.dumps(verdict.facts, indent=2) + "\n", encoding="utf-8")
