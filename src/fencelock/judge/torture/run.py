"""The settings, the progress and the result of a torture: plain values."""

from __future__ import annotations

from typing import NamedTuple

from ...model import Traits
from ..history import History
from ..promises import Promises
from ..verdict import Verdict
from .counters import SharedCounters
from .peers import OURS


class Settings(NamedTuple):
    """What was asked for."""

    url: str
    library: str = OURS
    seconds: float = 20.0
    faults: tuple[str, ...] = ("pause", "kill", "lose", "partition")
    clients: int = 4
    ttl: float = 1.0
    seed: int = 1


class Progress(NamedTuple):
    """How far a torture has come."""

    library: str
    elapsed: float
    seconds: float
    tenures: int
    faults: dict[str, int]
    lost: int
    refused: int
    phase: str = ""
    """What it does before and after its time, or nothing."""


class Run(NamedTuple):
    """What came of one torture."""

    settings: Settings
    url: str
    """Without its password."""
    traits: Traits | None
    """None for the lock of another library, of whose promises we know nothing."""
    ttl: float
    """As the engine granted it."""
    history: History
    promises: Promises
    verdict: Verdict
    faults: dict[str, int]
    not_applicable: dict[str, str]
    """Faults that could not be injected, and why."""
    counters: SharedCounters
    deaths: list[str]
    """Clients that ended without being killed, and their last words."""
    remark: str = ""
    """What a reader of the verdict must know of the engine."""
    unheard: str = ""
    """Why the engine did not answer in the end, if it did not."""

    @property
    def passed(self) -> bool:
        """Whether nothing was broken; a lock without a fence must not lose an update either."""
        lost = self.traits is None and any(one.lost for one in self.counters.plain.values())
        return self.verdict.passed and not self.deaths and not lost

    @property
    def tenures(self) -> int:
        acquires = self.history.operations("acquire")
        return sum(one.outcome == "ok" for one in acquires)
