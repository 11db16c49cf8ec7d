"""The trace of a play: plain data, from which the page draws every moment of the play.

The state of a lane at a time t is the last of its states that is not later than t.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

VERSION = 1


class Trace:
    """The data of a play, as values of JSON."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data

    @property
    def verdict(self) -> list[dict[str, Any]]:
        """The result of each checker of the judge: its question, its outcome, and since when."""
        return cast("list[dict[str, Any]]", self.data["verdict"])

    @property
    def outcome(self) -> dict[str, Any]:
        """The facts that a document may expect: the register's last value, who got the lock, ..."""
        return cast("dict[str, Any]", self.data["outcome"])

    @property
    def digest(self) -> str:
        """A short hash of the play: equal for equal plays."""
        return str(self.data["digest"])

    def differences(self) -> list[str]:
        """Return the differences between the outcome and what the document expects, as text."""
        expect = cast("Mapping[str, Any]", self.data["expect"] or {})
        return [
            f"{name}: {wanted!r} was expected, and it is {self.outcome[name]!r}"
            for name, wanted in expect.items()
            if self.outcome[name] != wanted
        ]

    def json(self) -> str:
        """Return the trace as one JSON object."""
        return json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))

    def save(self, path: str | Path) -> None:
        """Write the trace to a file, as JSON."""
        Path(path).write_text(self.json() + "\n", encoding="utf-8")


def digest_of(data: Mapping[str, Any]) -> str:
    """Return the digest of a trace's data, which must not yet contain the digest and versions."""
    text = json.dumps(data, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
