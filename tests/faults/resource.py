"""The smallest resource that checks fences: one file, changed under the operating system's lock.

It is what a guard does at a real resource: every operation carries the fence of its lease, reads
included, and one that is older than any seen before is refused.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from fencelock import StaleFence


class Resource:
    """A value, and the highest fence that has touched it."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._path.touch()

    def write(self, fence: int, value: object) -> None:
        self._touch(fence, lambda state: {**state, "value": value})

    def read(self, fence: int) -> object:
        return self._touch(fence, lambda state: state).get("value")

    def _touch(self, fence: int, change: Any) -> dict[str, Any]:
        with self._path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            state: dict[str, Any] = json.loads(file.read() or '{"highest": 0}')
            if fence < state["highest"]:
                raise StaleFence(name=self._path.name, offered=fence, highest=state["highest"])
            state = {**change(state), "highest": fence}
            file.seek(0)
            file.write(json.dumps(state))
            file.truncate()
        return state

    def value(self) -> object:
        """What is written now, for the judge."""
        return json.loads(self._path.read_text() or "{}").get("value")
