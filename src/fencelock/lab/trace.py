"""The trace of a play: plain data, from which every moment of it can be drawn.

``state(t)`` of a lane is the last of its states that is not later than t.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

VERSION = 1


class Trace:
    """What was played, as JSON can hold it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    @property
    def verdict(self) -> list[dict[str, Any]]:
        """What each checker of the judge says: its question, its outcome, and since when."""
        return cast("list[dict[str, Any]]", self.data["verdict"])

    @property
    def outcome(self) -> dict[str, Any]:
        """What a document may expect: how the register ended, who was granted the lock, ..."""
        return cast("dict[str, Any]", self.data["outcome"])

    @property
    def digest(self) -> str:
        """A short name for all that happened: equal for equal plays."""
        return str(self.data["digest"])

    def differences(self) -> list[str]:
        """Where the play came out otherwise than its document expects."""
        expect = cast("Mapping[str, Any]", self.data["expect"] or {})
        return [
            f"{name}: {wanted!r} was expected, and it is {self.outcome[name]!r}"
            for name, wanted in expect.items()
            if self.outcome[name] != wanted
        ]

    def json(self) -> str:
        """One JSON object."""
        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        Path(path).write_text(self.json() + "\n", encoding="utf-8")


def digest_of(data: Mapping[str, Any]) -> str:
    """The digest of a trace without its digest and its versions."""
    text = json.dumps(data, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
