"""The data of a history's page: the history itself, and the texts beside its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...judge import Event, History, Ruling


class Report(NamedTuple):
    """A history, and the texts beside its picture."""

    history: History
    rulings: Sequence[Ruling]
    title: str
    facts: Sequence[tuple[str, str]] = ()
    """What was run, when, by which versions: pairs of a name and a text."""
    figures: Sequence[str] = ()
    conclusion: str = ""
    names: Mapping[str, str] = {}
    """The names to show for the locks and registers."""
    losses: Sequence[Event] = ()
    """Writes to a register without a guard that overwrote the updates of others."""
    servers: Sequence[str] = ()
    states: Mapping[str, Sequence[tuple[float, dict[str, Any]]]] = {}
    """The states of the servers, if they were observed."""
    messages: Sequence[Mapping[str, Any]] = ()
