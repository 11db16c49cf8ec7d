"""Rounds, medians, ratios.

Every round visits all contestants in turn, so that a machine that grows busy or slow meets all of
them alike. A ratio is the median of the ratios within each round, which such drift does not touch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

from bench import usage
from bench.contestant import EVERY, Contestant, Target
from bench.work import Column, Work


class Verdict(NamedTuple):
    """A target, and what was reached."""

    who: str
    target: Target
    figure: float

    @property
    def met(self) -> bool:
        if self.target.bound == "at most":
            return self.figure <= self.target.limit
        return self.figure >= self.target.limit


class Result:
    """All figures of one work, round by round."""

    def __init__(self, work: Work, contestants: Sequence[type[Contestant]]) -> None:
        self.work = work
        self.contestants = {kind.name: kind for kind in contestants}
        self.rounds: dict[str, list[dict[str, float]]] = {}
        self.skipped: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.stolen: float | None = None
        """The share of the processors that the host gave to others meanwhile, where it tells."""

    def fields(self) -> dict[str, list[str]]:
        """Who took part, by field."""
        found: dict[str, list[str]] = {}
        for name in self.rounds:
            found.setdefault(self.contestants[name].field, []).append(name)
        everywhere = found.pop(EVERY, [])
        if everywhere and not found:
            return {EVERY: everywhere}
        return {field: everywhere + names for field, names in found.items()}

    def columns(self, names: Sequence[str]) -> list[Column]:
        """The columns that say something about any of these."""
        return [c for c in self.work.columns if any(self.figures(name, c.key) for name in names)]

    def figures(self, name: str, key: str) -> list[float]:
        """A contestant's figure of every round."""
        return [figures[key] for figures in self.rounds.get(name, []) if key in figures]

    def summary(self, name: str, column: Column) -> float | None:
        """What a contestant's rounds come to."""
        figures = self.figures(name, column.key)
        return (max if column.worst else median)(figures) if figures else None

    def ratio(self, name: str, versus: str, key: str) -> float | None:
        """How many times another's figure a contestant's is; None where that says nothing."""
        pairs = zip(self.figures(name, key), self.figures(versus, key), strict=False)
        ratios = [ours / theirs for ours, theirs in pairs if theirs]
        return median(ratios) if ratios else None

    def ratios(self, name: str) -> dict[str, float]:
        """The contestant's first column beside those of the yardsticks in its field."""
        kinds = [self.contestants[other] for other in self.rounds]
        key, fields = self.work.columns[0].key, (EVERY, self.contestants[name].field)
        others = [k.name for k in kinds if k.field in fields and self.work.name in k.yardstick]
        found = {other: self.ratio(name, other, key) for other in others}
        return {other: ratio for other, ratio in found.items() if ratio is not None}

    def verdicts(self) -> list[Verdict]:
        """The targets of those who took part."""
        found: list[Verdict] = []
        for who in self.rounds:
            for target in self.contestants[who].targets.get(self.work.name, ()):
                figure = self._reached(who, target)
                if figure is not None:
                    found.append(Verdict(who, target, figure))
        return found

    def _reached(self, who: str, target: Target) -> float | None:
        if target.versus:
            return self.ratio(who, target.versus, target.key)
        column = next(c for c in self.work.columns if c.key == target.key)
        return self.summary(who, column)


def run(
    work: Work, contestants: Sequence[type[Contestant]], folder: Path, rounds: int, quick: bool
) -> Result:
    """Let every contestant do the work, so many rounds in turn."""
    result = Result(work, contestants)
    with ExitStack() as stack:
        ready: list[Contestant] = []
        for kind in contestants:
            if why := kind.missing():
                result.skipped[kind.name] = why
                continue
            try:
                home = folder / work.name / kind.name.replace(" ", "-")
                ready.append(kind(stack.enter_context(kind.stage(home))))
            except Exception as error:
                result.failed[kind.name] = _why(error, folder)
        before = usage.ticks()
        for number in range(rounds):
            for contestant in list(ready):
                _tell(f"{work.name}: round {number + 1} of {rounds}, {contestant.name}")
                try:
                    figures = dict(work.measure(contestant, quick))
                except Exception as error:  # one that fails must not end the others' run
                    result.failed[contestant.name] = _why(error, folder)
                    ready.remove(contestant)
                else:
                    result.rounds.setdefault(contestant.name, []).append(figures)
        result.stolen = usage.stolen(before, usage.ticks())
        _tell("")
    return result


def _why(error: Exception, folder: Path) -> str:
    return f"{type(error).__name__}: {error}".replace(str(folder), "…")


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:78.78}\r", end="", file=sys.stderr, flush=True)


def contestants() -> list[type[Contestant]]:
    """All contestants: every class in a file of `contestants/`."""
    return _classes("contestants", Contestant)


def works() -> list[type[Work]]:
    """All works: every class in a file of `works/`."""
    return _classes("works", Work)


def _classes(folder: str, base: type) -> list[Any]:
    found: list[type] = []
    for file in sorted((Path(__file__).parent / folder).glob("*.py")):
        module = importlib.import_module(f"bench.{folder}.{file.stem}")
        kinds = [kind for kind in _own(module) if issubclass(kind, base)]
        found += [kind for kind in kinds if takes_part(kind)]
    return found


def takes_part(kind: type) -> bool:
    """Whether a class is more than a base of others. One with a name must be complete."""
    lacking = sorted(getattr(kind, "__abstractmethods__", ()))
    if lacking and "name" in vars(kind):
        raise TypeError(f"{kind.__name__} has a name, but does not say: {', '.join(lacking)}")
    return not lacking


def _own(module: ModuleType) -> list[type]:
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]
