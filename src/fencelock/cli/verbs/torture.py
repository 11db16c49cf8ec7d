"""``fencelock torture URL``: break clients and connections on purpose; see whether locks hold."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..._client.validation import check_ttl
from ...engines import default_url, parse
from ...errors import Misconfigured, UsageError
from ...judge.torture.nemesis import FAULTS, read_faults
from .. import codes, terminal
from ..clock import seconds
from ..options import connected, number_of, url_of

if TYPE_CHECKING:
    from ...judge.torture.run import Progress, Run, Settings

SECONDS_MAX = 3600.0
LIVE_S = 0.2
LEFTOVERS = ("", "-wal", "-shm", "-journal")
_COLORS = {
    "passed": "green",
    "violated": "red",
    "happened": "red",
    "undecided": "yellow",
    "not applicable": "dim",
}

EPILOG = (
    "faults:\n"
    + "\n".join(f"  {fault:<10} {what}" for fault, what in FAULTS.items())
    + f"""

Only locks of names that begin with fencelock-torture- are touched, and none is left. The exit
code is 0 when every promise held, {codes.BROKEN} when one was broken, {codes.MISCONFIGURED} when
no fault came in so short a time, else that of the error."""
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("engine_url", metavar="URL", nargs="?", help="the engine to torture")
    add("--seconds", metavar="DUR", default="20s", help="for how long (default 20s)")
    add(
        "--faults",
        metavar="LIST",
        default="pause,kill,lose,partition",
        help="what goes wrong, separated by commas (default: all)",
    )
    add(
        "--clients",
        metavar="N",
        type=number_of(2, 64),
        default=4,
        help="client processes (default 4)",
    )
    add("--ttl", metavar="DUR", default="1s", help="length of a lease (default 1s)")
    add(
        "--semaphore",
        metavar="N",
        type=number_of(1, 64),
        default=0,
        help="torture a semaphore of so many slots, and not a mutex",
    )
    add("--rw", action="store_true", help="torture a read/write lock, and not a mutex")
    add("--library", metavar="NAME", help="do the same to another library, for comparison")
    add(
        "--seed",
        metavar="N",
        type=number_of(0, 10**9),
        default=1,
        help="seed of the random choices (default 1)",
    )
    add("--history", metavar="FILE", help="write what happened, one JSON object per line")
    add("--html", metavar="FILE", help="write a page that shows what happened")


def main(options: argparse.Namespace) -> int:
    """Torture, judge and report; return ``codes.BROKEN`` for a broken promise."""
    settings = _settings(options)
    files = [_writable(options.history), _writable(options.html)]
    signal.signal(signal.SIGTERM, _end)
    made = _would_make(settings.url)
    try:
        runs = [_run(settings, options)]
        if options.library:
            runs.append(_run(settings._replace(library=options.library), options))
    except BaseException as error:
        for file in filter(None, files):
            if not file.stat().st_size:
                file.unlink()  # it was made only to see that it can be
        if isinstance(error, KeyboardInterrupt):
            terminal.say("interrupted: there is no verdict, and its locks are free again")
        raise
    finally:
        _remove(made)
    _write(runs, *files)
    _print(runs, options)
    if not runs[0].passed:
        return codes.BROKEN
    if runs[0].unheard:
        return codes.UNREACHABLE
    return codes.OK if sum(runs[0].faults.values()) else codes.MISCONFIGURED


def _settings(options: argparse.Namespace) -> Settings:
    from ...judge.torture.peers import check_library
    from ...judge.torture.run import Settings

    url = url_of(options)
    url = default_url() if url is None else url
    if options.scope is not None:
        connected(options).close()  # refuses an engine of a smaller scope
    length = seconds(options.seconds)
    if not 1 <= length <= SECONDS_MAX:
        raise UsageError(f"--seconds must be 1 to {SECONDS_MAX:g}, not {length:g}")
    if options.semaphore and options.rw:
        raise UsageError("--semaphore and --rw are two tortures: run them one after the other")
    if options.library and (options.semaphore or options.rw):
        raise UsageError("--library is about mutexes: leave it out, or --semaphore and --rw")
    if options.library:
        check_library(options.library, parse(url, {}).scheme)
    ttl = check_ttl(seconds(options.ttl), "--ttl")
    if ttl > length:
        raise UsageError(
            f"--ttl {ttl:g} is longer than --seconds {length:g}: nobody could be frozen past it"
        )
    return Settings(
        url=url,
        seconds=length,
        faults=read_faults(options.faults),
        clients=options.clients,
        ttl=ttl,
        seed=options.seed,
        semaphore=options.semaphore,
        rw=options.rw,
    )


def _run(settings: Settings, options: argparse.Namespace) -> Run:
    from ... import observe
    from ...judge.torture.runner import torture

    observe.redirect(terminal.say if options.verbose else lambda _: None)
    live = None if options.json else _Live()
    try:
        return torture(settings, live.show if live else lambda _: None)
    finally:
        if live:
            live.end()


class _Live:
    """A line on stderr that shows the progress."""

    def __init__(self) -> None:
        self._wanted = terminal.is_terminal(sys.stderr)
        self._next_at = 0.0

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if not self._wanted or (now < self._next_at and not progress.phase):
            return
        self._next_at = now + LIVE_S
        if progress.phase:
            terminal.live(f"{progress.library} {progress.phase} …", sys.stderr)
            return
        faults = ", ".join(f"{count} {fault}" for fault, count in sorted(progress.faults.items()))
        elapsed = min(progress.elapsed, progress.seconds)
        terminal.live(
            f"{progress.library} {elapsed:.0f}/{progress.seconds:g} s: {progress.tenures} tenures, "
            f"{progress.lost} updates lost without a guard, {progress.refused} refused; {faults}",
            sys.stderr,
        )

    def end(self) -> None:
        if self._wanted:
            terminal.live("", sys.stderr)


def _print(runs: list[Run], options: argparse.Namespace) -> None:
    from ...judge.torture import report

    if options.json:
        ours, *others = [report.facts(run) for run in runs]
        terminal.emit({**ours, "comparison": others[0] if others else None})
        return
    wanted = terminal.colors(sys.stdout)
    lines = [
        terminal.paint(terminal.fitting(line), _COLORS[outcome], wanted) if outcome else
        terminal.fitting(line)
        for run in runs for outcome, line in report.words(run)
    ]  # fmt: skip
    for run in reversed(runs):  # ours is the last word, and the exit code
        whose = f" ({run.settings.library})" if len(runs) > 1 else ""
        color = "green" if run.passed and not run.unheard and run.faults else "red"
        lines.append(terminal.paint(f"verdict{whose}: {report.conclusion(run)}", color, wanted))
    terminal.lines(lines)


def _writable(path: str | None) -> Path | None:
    """Return the path if it can be written; raise before the time is spent if not."""
    if path is None:
        return None
    try:
        with open(path, "a", encoding="utf-8"):
            return Path(path)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be written: {error.strerror}") from error


def _write(runs: list[Run], history: Path | None, html: Path | None) -> None:
    if history is not None:
        runs[0].history.save(history)
    if html is not None:
        from ...lab.histories import page_of
        from ...lab.tortures import parts_of

        date = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        html.write_text(page_of(parts_of(runs, date)), encoding="utf-8")


def _would_make(url: str) -> str:
    """Return the lock file that this run would make and has to remove, or an empty text."""
    address = parse(url, {})
    file = os.path.abspath(address.path[1:]) if address.scheme == "sqlite" else ""
    return file if file and not os.path.exists(file) else ""


def _remove(file: str) -> None:
    if not file:
        return
    for leftover in LEFTOVERS:
        Path(file + leftover).unlink(missing_ok=True)
    inbox = Path(f"{file}-inbox")
    if inbox.is_dir():
        for one in inbox.iterdir():
            one.unlink(missing_ok=True)
        inbox.rmdir()


def _end(number: int, _frame: object) -> NoReturn:
    """Handle SIGTERM: raise SystemExit, on whose way out everything is cleaned up."""
    raise SystemExit(codes.SIGNALLED + number)
