"""The judge: it checks the history of a run against what was promised.

    history = History.load("run.jsonl")
    verdict(history, Promises(ttl=3.0, slack=0.05)).violations

Simulated runs and real ones are judged by the same checkers.
"""

from __future__ import annotations

from .history import Event, History, Operation, Violation
from .promises import Promises
from .verdict import Ruling, Verdict, verdict

__all__ = [
    "Event",
    "History",
    "Operation",
    "Promises",
    "Ruling",
    "Verdict",
    "Violation",
    "verdict",
]
