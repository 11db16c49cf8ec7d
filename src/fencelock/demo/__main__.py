"""``python -m fencelock.demo``: the arguments, the folder, and what becomes of errors.

Exit codes: 0 the demo showed what it set out to show (the double sale of ``--unsafe`` included), 1 it did not,
2 the arguments are wrong, 128 + n a signal ended it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from . import store
from .crew import Crew, Interrupted, Trouble
from .story import Plan, Story
from .timeline import Timeline
from .verdict import Verdict, judge
from .words import LOCK, TTL_S

SEATS_MAX = 200
WORKERS_MIN, WORKERS_MAX = 2, 32


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if not hasattr(signal, "SIGSTOP"):
        print("The demo freezes a process with SIGSTOP: it needs a POSIX system.", file=sys.stderr)
        return 1
    plan = Plan(options.seats, options.workers, options.unsafe, options.seconds_limit)
    timeline = Timeline(color=not options.no_color)
    try:
        with folder_for(options.keep) as folder:
            verdict = run(plan, folder, timeline)
            report(verdict, timeline, options.json)
    except Interrupted as interrupted:
        print(f"\nStopped by {interrupted}: no process is left.", file=sys.stderr)
        return 128 + interrupted.number
    except BrokenPipeError:  # nobody reads us any more: say nothing, at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Trouble, OSError, sqlite3.Error) as error:
        print(f"\nThe demo could not be shown: {error}", file=sys.stderr)
        return 1
    return 0 if verdict.shown else 1


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fencelock.demo",
        description="Processes sell the seats of one store under one lock; one is frozen past its "
        "lease and writes late, and the fence keeps the seat from being sold twice.",
    )
    add = parser.add_argument
    add("--unsafe", action="store_true", help="the store does not check the fence")
    add("--no-color", action="store_true", help="plain text, as with NO_COLOR=1")
    add("--seats", type=int, default=8, metavar="N", help="to be sold (default: %(default)s)")
    add("--workers", type=int, default=3, metavar="N", help="processes (default: %(default)s)")
    add("--seconds-limit", type=float, default=30.0, metavar="S", help="give up after (default: %(default)g)")
    add("--keep", type=Path, metavar="FOLDER", help="leave the files of the run in this folder")
    add("--json", type=Path, metavar="FILE", help="write the summary to this file as well")
    options = parser.parse_args(arguments)
    if not 1 <= options.seats <= SEATS_MAX:
        parser.error(f"--seats must be from 1 to {SEATS_MAX}")
    if not WORKERS_MIN <= options.workers <= WORKERS_MAX:
        parser.error(f"--workers must be from {WORKERS_MIN} to {WORKERS_MAX}: one freezes, another takes over")
    if not 0 < options.seconds_limit <= 3600:
        parser.error("--seconds-limit must be more than 0 and at most 3600")
    if options.keep is not None and (options.keep / "seats.db").exists():
        parser.error(f"{options.keep} holds an earlier run: name a new folder")
    return options


@contextmanager
def folder_for(keep: Path | None) -> Iterator[Path]:
    """The folder of the run: the user's, or one that is gone afterwards."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with TemporaryDirectory(prefix="fencelock-demo-", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


def run(plan: Plan, folder: Path, timeline: Timeline) -> Verdict:
    """Play the story and judge it by the store's records."""
    timeline.say(
        f"{plan.workers} processes sell {plan.seats} seats, one at a time under the lock {LOCK!r}"
        f" (ttl {TTL_S:g} s).  The store {'does NOT check' if plan.unsafe else 'checks'} the fence."
    )
    timeline.head()
    store.create(folder / "seats.db", plan.seats)
    with Crew() as crew:
        catch_signals(crew)
        story = Story(plan, folder, crew, timeline)
        story.play()
    late = story.frozen.message if story.frozen else None
    return judge(plan, store.read_records(folder / "seats.db"), late, story.loss_known)


def catch_signals(crew: Crew) -> None:
    """Let Ctrl-C and its relatives reach the story as a message, unless they are ignored on purpose."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, crew.interrupt)


def report(verdict: Verdict, timeline: Timeline, file: Path | None) -> None:
    timeline.say("")
    good = verdict.shown and not verdict.facts["unsafe"]
    for line in verdict.lines:
        timeline.say(line, "good" if good else "bad")
    if file is not None:
        file.write_text(json.dumps(verdict.facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
