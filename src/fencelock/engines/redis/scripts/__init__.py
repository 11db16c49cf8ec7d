"""Load the Lua scripts: the server runs each as one step, and knows it by its SHA-1 digest.

A line ``--+ file.lua`` includes a file of this folder, once in a script. The values that several
scripts must agree on are in ``constants.lua``, the record and the queue in ``queue.lua``.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha1
from typing import NamedTuple

_HERE = os.path.dirname(__file__)
_INCLUDE = b"--+ "


class Script(NamedTuple):
    """One script."""

    name: str
    source: bytes
    digest: bytes


@cache
def script(name: str, folder: str = _HERE) -> Script:
    """Read a script of a folder, with the files that it includes."""
    source = _assembled(folder, name, set())
    return Script(name, source, sha1(source, usedforsecurity=False).hexdigest().encode())


def _assembled(folder: str, name: str, included: set[str]) -> bytes:
    lines: list[bytes] = []
    for line in _read(folder, name).splitlines(keepends=True):
        if not line.startswith(_INCLUDE):
            lines.append(line)
        elif (part := line.removeprefix(_INCLUDE).decode().strip()) not in included:
            included.add(part)
            lines.append(_assembled(_HERE, part.removesuffix(".lua"), included))
    return b"".join(lines)


def _read(folder: str, name: str) -> bytes:
    with open(os.path.join(folder, f"{name}.lua"), "rb") as file:
        return file.read()
