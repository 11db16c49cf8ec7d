"""A Lua 5.1 interpreter, as a Redis server has, with a model of the server (`model_redis.lua`).

One interpreter serves all models, and each script of the package is compiled once: it keeps nothing
between two runs. LuaJIT runs the same language in less than half of the time, so it is used if
installed. `FENCELOCK_SIM_LUA=lua51` selects the other; a test checks that both behave alike.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache
from hashlib import sha1
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Publish = Callable[[bytes, bytes | None], int]
Script = Callable[..., Any]


DIALECT = os.environ.get("FENCELOCK_SIM_LUA") or next(
    name for name in ("luajit21", "luajit20", "lua51") if find_spec(f"lupa.{name}")
)
_module: Any = import_module(f"lupa.{DIALECT}")  # its type stubs do not allow bytes
_lua: Any = _module.LuaRuntime(encoding=None, unpack_returned_tuples=True)


class _Running(threading.local):
    """How the server that runs a command in this thread publishes a message.

    A server whose function Lua held would never be collected: neither garbage collector sees a
    cycle through Lua and Python.
    """

    publish: Publish


running = _Running()


def _hand_out(channel: bytes, message: bytes | None) -> int:
    return running.publish(channel, message)


_source = (Path(__file__).parent / "model_redis.lua").read_bytes()
_framed: Callable[[Any], Script]
new: Callable[[], Any]
"""Creates the data of an empty server."""
run_command: Script
"""Runs a single command: called with a server, the time, and the words."""
read_snapshot: Callable[..., Any]
"""Reads a server's keys for an observer; None if nothing was written since the last time."""
new, run_command, _framed, read_snapshot = _lua.compile(_source)(_hand_out)
LuaError: type[Exception] = _module.LuaError


@cache
def learn(source: bytes) -> tuple[bytes, Script]:
    """Return the digest of a script, and the function that runs it: called with a server, the time,
    how many of the words are keys, and the words."""
    script = _framed(_lua.compile(b"local redis, KEYS, ARGV = ... " + source))
    return sha1(source, usedforsecurity=False).hexdigest().encode(), script


def refused(error: Exception) -> str:
    """Return why a command was refused; any other error is a bug of the model and is reraised."""
    _, is_refused, why = str(error).partition("refused: ")
    if not is_refused:
        raise error
    return why.partition("\nstack traceback")[0]


def plain(value: Any) -> Any:
    """Convert a Lua value to a server's reply: a float to an integer, a falsy value to None."""
    return int(value) if type(value) is float else value or None
