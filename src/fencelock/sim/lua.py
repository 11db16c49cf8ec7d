"""A Lua 5.1, as a Redis server has it, with a model of such a server in it (`model_redis.lua`).

One interpreter serves all models, and each script of the package is compiled once: it keeps nothing
between two runs. LuaJIT is that language too, and takes less than half of the time, so it is used
where it is to be had. `FENCELOCK_SIM_LUA=lua51` takes the other; a test sees that both play alike.
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
_module: Any = import_module(f"lupa.{DIALECT}")  # its types know no bytes
_lua: Any = _module.LuaRuntime(encoding=None, unpack_returned_tuples=True)


class _Asked(threading.local):
    """The server that is being asked, by each thread: how it hands out what is published.

    One that held it in Lua would never be collected: what Lua and Python hold of each other,
    neither of them sees.
    """

    publish: Publish


asked = _Asked()


def _hand_out(channel: bytes, message: bytes | None) -> int:
    return asked.publish(channel, message)


_source = (Path(__file__).parent / "model_redis.lua").read_bytes()
_framed: Callable[[Any], Script]
new: Callable[[], Any]
"""A server without data."""
ask: Script
"""For single commands: given a server, the time, and the words."""
look: Callable[..., Any]
"""What lies in a server, for those who look on; None if nothing was written since the last time."""
new, ask, _framed, look = _lua.compile(_source)(_hand_out)
LuaError: type[Exception] = _module.LuaError


@cache
def learn(source: bytes) -> tuple[bytes, Script]:
    """The digest of a script, and what runs it: given a server, the time, how many of the words are
    keys, and the words."""
    script = _framed(_lua.compile(b"local redis, KEYS, ARGV = ... " + source))
    return sha1(source, usedforsecurity=False).hexdigest().encode(), script


def refused(error: Exception) -> str:
    """Why a command was refused; any other error is one of the model, and is raised again."""
    _, is_refused, why = str(error).partition("refused: ")
    if not is_refused:
        raise error
    return why.partition("\nstack traceback")[0]


def plain(value: Any) -> Any:
    """A value as it comes from a server: whole numbers, and None where there is nothing."""
    return int(value) if type(value) is float else value or None
