"""The registers of a history: the writes that they accepted, and the calls that they refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ...judge import Operation
from .reading import TOUCHES, Reading

REGISTERS_MAX = 3
States: TypeAlias = list[tuple[float, dict[str, Any]]]
UNTOUCHED = {"value": "", "mark": 0, "writes": 0, "refused": 0}


class Registers:
    """The states of the guarded registers, and of those that are written without a guard."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._guarded, self.highest = self._touched()
        """The highest fence that the register had seen, for each operation that was refused."""
        self._unguarded = self._forgotten()

    def of(self, lock: str) -> dict[str, States]:
        """Return the states of the registers of a lock, by the names of their lanes."""
        guarded = "guarded" if self._reading.report.losses else ""
        found: dict[str, States] = {}
        for kind, known in ((guarded, self._guarded), ("unguarded", self._unguarded)):
            names = [name for name in sorted(known) if self._reading.is_about(name, lock)]
            for name in names[:REGISTERS_MAX]:
                found[self._lane(kind, name, names)] = known[name]
        return found

    def _lane(self, kind: str, name: str, names: Sequence[str]) -> str:
        slot = name.partition("#")[2]
        if not kind:
            return self._reading.call(name)
        return f"{kind}, slot {slot}" if slot and len(names) > 1 else kind

    def _touched(self) -> tuple[dict[str, States], dict[int, int]]:
        """Return the states of each register, and the highest fence at each refused operation."""
        touched = sorted(
            (one for one in self._reading.operations if one.verb in TOUCHES
             and one.client in self._reading.clients and not math.isinf(one.end)),
            key=lambda one: one.end,
        )  # fmt: skip
        found: dict[str, States] = {}
        highest: dict[int, int] = {}
        for one in touched:
            seen = found.setdefault(one.name, [(0.0, dict(UNTOUCHED))])
            after = _after(seen[-1][1], one)
            if after != seen[-1][1]:
                seen.append((one.end, after))
            if one.outcome == "fail":
                highest[one.op] = after["mark"]
        return found, highest

    def _forgotten(self) -> dict[str, States]:
        found: dict[str, States] = {}
        for event in self._reading.report.losses:
            seen = found.setdefault(event.name, [(0.0, UNTOUCHED | {"lost": 0})])
            lost: int = seen[-1][1]["lost"]
            seen.append((event.at, seen[-1][1] | {"lost": lost + 1, "by": event.client}))
        return found


def _after(state: Mapping[str, Any], one: Operation) -> dict[str, Any]:
    """Return the state of a register after an operation."""
    if one.outcome == "fail":
        return {**state, "refused": state["refused"] + 1, "by": one.client}
    if one.outcome != "ok":
        return dict(state)
    mark = max(state["mark"], one.fence)
    if one.verb != "write":
        return {**state, "mark": mark}
    return {**state, "mark": mark, "writes": state["writes"] + 1, "value": str(one.value),
            "by": one.client}  # fmt: skip
