"""One value of a document, read as the type that it must have, or refused with its position."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard, cast

from ..errors import UsageError

TEXT_MAX = 2000
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,19}")


def is_object(raw: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is a JSON object."""
    return isinstance(raw, dict) and all(isinstance(name, str) for name in cast("Any", raw))


def is_list(raw: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list, of anything."""
    return isinstance(raw, list)


class Value:
    """A value of a document, and its position."""

    def __init__(self, raw: object, where: str) -> None:
        self.raw = raw
        self.where = where

    def mapping(self) -> Mapping[str, Any]:
        if self.raw is None:
            return {}
        if not is_object(self.raw):
            raise self._not("an object with names and values")
        return self.raw

    def get(self, name: str) -> Value:
        return Value(self.mapping().get(name), f"{self.where}.{name}" if self.where else name)

    def entries(self) -> dict[str, Value]:
        return {name: self.get(name) for name in self.mapping()}

    def items(self, most: int) -> list[Value]:
        if self.raw is None:
            return []
        if not is_list(self.raw):
            raise self._not("a list")
        if len(self.raw) > most:
            raise UsageError(f"{self.where}: {len(self.raw)} of them, {most} at the most")
        return [Value(one, f"{self.where}[{number}]") for number, one in enumerate(self.raw)]

    def only(self, *names: str) -> None:
        unknown = [name for name in self.mapping() if name not in names]
        if unknown:
            where = self.where or "the document"
            raise UsageError(f"{where}: {unknown[0]!r} is unknown; there are {', '.join(names)}")

    def text(self, default: str | None = None) -> str:
        if self.raw is None and default is not None:
            return default
        if not isinstance(self.raw, str) or not self.raw or len(self.raw) > TEXT_MAX:
            raise self._not(f"a text of 1 to {TEXT_MAX} characters")
        return self.raw

    def name(self, default: str) -> str:
        name = self.text(default)
        if not NAME.fullmatch(name):
            raise self._not("a name of 1 to 20 letters, digits, _ and -, a letter first")
        return name

    def choice(self, *known: str, first_is_default: bool = True) -> str:
        choice = self.text(known[0] if first_is_default else None)
        if choice not in known:
            raise UsageError(f"{self.where}: there is no {choice!r}, but {', '.join(known)}")
        return choice

    def hosts(self, known: set[str], most: int) -> tuple[str, ...]:
        given = [self] if isinstance(self.raw, str) else self.items(most)
        if not given:
            raise self._not("a name, or a list of names")
        return tuple(one.choice(*sorted(known), first_is_default=False) for one in given)

    def flag(self, default: bool) -> bool:
        if self.raw is None:
            return default
        if not isinstance(self.raw, bool):
            raise self._not("true or false")
        return self.raw

    def number(self, least: float, most: float, default: float | None = None) -> float:
        if self.raw is None and default is not None:
            return default
        if isinstance(self.raw, bool) or not isinstance(self.raw, int | float):
            raise self._not(f"a number from {least:g} to {most:g}")
        if not least <= self.raw <= most:
            raise self._not(f"a number from {least:g} to {most:g}")
        return float(self.raw)

    def whole(self, least: int, most: int, default: int) -> int:
        if self.raw is None:
            return default
        if isinstance(self.raw, bool) or not isinstance(self.raw, int):
            raise self._not(f"a whole number from {least} to {most}")
        if not least <= self.raw <= most:
            raise self._not(f"a whole number from {least} to {most}")
        return self.raw

    def _not(self, wanted: str) -> UsageError:
        shown = repr(self.raw)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        where = self.where or "the document"
        return UsageError(f"{where}: {wanted} is wanted, not {shown}")
