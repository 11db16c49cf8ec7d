"""The scripts that decide, each run by the server as one step, and known there by its digest."""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha1
from typing import NamedTuple

_INCLUDE = b"--+ queue.lua\n"


class Script(NamedTuple):
    """One script."""

    name: str
    source: bytes
    digest: bytes


@cache
def script(name: str) -> Script:
    """Read a script that lies beside this file, with what it shares with others put in."""
    source = _read(name)
    if _INCLUDE in source:
        source = source.replace(_INCLUDE, _read("queue"))
    return Script(name, source, sha1(source, usedforsecurity=False).hexdigest().encode())


def _read(name: str) -> bytes:
    with open(os.path.join(os.path.dirname(__file__), f"{name}.lua"), "rb") as file:
        return file.read()
