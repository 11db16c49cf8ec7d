"""What is read of a history beside its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...judge import Event, History, Ruling


class Report(NamedTuple):
    """A history, and what is to be read beside its picture."""

    history: History
    rulings: Sequence[Ruling]
    title: str
    facts: Sequence[tuple[str, str]] = ()
    """What was run, when, by which versions: each with its name."""
    figures: Sequence[str] = ()
    conclusion: str = ""
    names: Mapping[str, str] = {}
    """What to call the locks and registers."""
    losses: Sequence[Event] = ()
    """Writes that made a register without a guard forget what others had written."""
    servers: Sequence[str] = ()
    states: Mapping[str, Sequence[tuple[float, dict[str, Any]]]] = {}
    """Of the servers, where somebody saw into them."""
    messages: Sequence[Mapping[str, Any]] = ()
