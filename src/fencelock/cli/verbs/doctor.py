"""``fencelock doctor [URL]``: whether locking works here, how long it takes, what may go wrong."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..._client import administration
from ...errors import FencelockError
from ...model import Finding
from .. import codes, terminal
from ..clock import brief
from ..options import connected

if TYPE_CHECKING:
    from ...sync import Client

T = TypeVar("T")

REPEATS = 5
SLOW_S = 0.1  # a step that takes longer makes short leases fail
TTL_S = 30.0
_COLORS = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("engine_url", metavar="URL", nargs="?", help="the engine to examine")


class Report(NamedTuple):
    """What was measured and found."""

    url: str
    times: dict[str, float]
    """Seconds of each step: the best of a few."""
    findings: list[Finding]

    @property
    def can_lock(self) -> bool:
        return not any(finding.level == "problem" for finding in self.findings)


def main(options: argparse.Namespace) -> int:
    """Examine and report; return an exit code other than 0 for a problem."""
    report = diagnose(options)
    if options.json:
        terminal.emit(
            {
                "url": report.url,
                "can_lock": report.can_lock,
                "times_s": {step: round(spent, 6) for step, spent in report.times.items()},
                "findings": [finding._asdict() for finding in report.findings],
            }
        )
    else:
        terminal.lines(_words(report))
    return codes.OK if report.can_lock else codes.MISCONFIGURED


def diagnose(options: argparse.Namespace) -> Report:
    """Time every step with a lock of our own, and have the engine examine itself."""
    times: dict[str, float] = {}
    with _timed(times, "connect", lambda: connected(options)) as client:
        fences = [_round_trip(client, times) for _ in range(REPEATS)]
        findings = [*_traits(client), _fences(fences), *_slow(times), *_of_engine(client)]
        return Report(client.url, times, findings)


def _round_trip(client: Client, times: dict[str, float]) -> int:
    """Acquire, renew and release once; return the fence."""
    lock = client.lock(f"fencelock-doctor-{os.getpid()}", ttl=TTL_S, timeout=0, renew=False)
    lease = _timed(times, "acquire", lock.acquire)
    _timed(times, "renew", lease.renew)
    _timed(times, "release", lease.release)
    return lease.fence


def _timed(times: dict[str, float], step: str, action: Callable[[], T]) -> T:
    begun = time.perf_counter()
    result = action()
    times[step] = min(time.perf_counter() - begun, times.get(step, float("inf")))
    return result


def _traits(client: Client) -> list[Finding]:
    traits = client.traits
    order = "first come first served" if traits.fifo else "no order among waiters"
    wait = "waiters are woken" if traits.push else "waiters poll"
    lasts = "survives a restart" if traits.durable else "does not survive a restart"
    words = f"{traits.safety}, scope {traits.scope}, {order}, {wait}, {lasts}"
    if traits.safety == "correctness":
        return [Finding("ok", "promises", words)]
    return [Finding("warning", "promises", words, traits.advice)]


def _fences(fences: list[int]) -> Finding:
    if all(one < other for one, other in pairwise(fences)):
        return Finding("ok", "fence", f"grows with every grant, now {fences[-1]}")
    return Finding("problem", "fence", f"does not grow: {fences}", "do not use this engine")


def _slow(times: dict[str, float]) -> list[Finding]:
    slow = [step for step in ("acquire", "renew", "release") if times[step] > SLOW_S]
    if not slow:
        return []
    longest = max(times[step] for step in slow)
    advice = f"keep every ttl above {brief(longest * 30)}, or bring the engine nearer"
    return [Finding("warning", "speed", f"{', '.join(slow)} took up to {brief(longest)}", advice)]


def _of_engine(client: Client) -> list[Finding]:
    from ...sync import drive

    try:
        return drive(administration.diagnose(client._core))  # pyright: ignore[reportPrivateUsage]
    except (FencelockError, OSError) as error:
        return [Finding("warning", "engine", f"could not be examined: {error}")]


def _words(report: Report) -> list[str]:
    wanted = terminal.colors(sys.stdout)
    verdict = ("yes", "green") if report.can_lock else ("no", "red")
    times = ", ".join(f"{step} {brief_ms(spent)}" for step, spent in report.times.items())
    lines = [f"can I lock at {report.url}? {terminal.paint(*verdict, wanted)}", f"  {times}"]
    for finding in report.findings:
        level = terminal.paint(f"{finding.level:<8}", _COLORS[finding.level], wanted)
        text = terminal.fitting(f"{finding.topic}: {finding.text}")
        lines.append(f"  {level} {text}")
        if finding.advice:
            lines.append(f"           {terminal.fitting(finding.advice)}")
    return lines


def brief_ms(spent: float) -> str:
    """Format a time that is usually below a millisecond."""
    return f"{spent * 1000:.3g} ms" if spent < 1 else f"{spent * 1000:,.0f} ms"
