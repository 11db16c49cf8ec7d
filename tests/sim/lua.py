"""Runs the package's scripts, unchanged, by a Lua 5.1 as a Redis server has it.

One interpreter serves all models: a script keeps nothing between two runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

OK = object()  # the status reply, in Python

Call = Callable[[bytes, Sequence[bytes]], Any]


class Refused(Exception):
    """A command cannot be served; nothing was changed by it."""


_lua: Any = import_module("lupa.lua51").LuaRuntime(encoding=None)  # its types know no bytes
_compiled: dict[bytes, Any] = {}
_call: Call
_DONE = _lua.table_from({b"ok": b"OK"})
_FRAME = b"local redis, KEYS, ARGV = ... "


def run(call: Call, source: bytes, keys: Sequence[bytes], args: Sequence[bytes]) -> Any:
    """Run a script whose commands are served by a function."""
    global _call
    script = _compiled.get(source)
    if script is None:
        script = _compiled[source] = _lua.compile(_FRAME + source)
    _call = call
    return _from_lua(script(_redis, _lua.table_from(keys), _lua.table_from(args)))


def _redis_call(command: bytes, *args: Any) -> Any:
    reply = _call(command, [arg if type(arg) is bytes else _number(arg) for arg in args])
    if type(reply) is bytes or type(reply) is int:
        return reply
    return _to_lua(reply)


_redis = _lua.table_from({b"call": _redis_call})


def _number(value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused("ERR Lua redis lib command arguments must be strings or integers")
    return b"%d" % value if value == int(value) else b"%.17g" % value


def _to_lua(reply: Any) -> Any:
    if reply is None:
        return False
    if reply is OK:
        return _DONE
    if type(reply) is list:
        return _lua.table_from([_to_lua(one) for one in reply])
    return reply


def _from_lua(value: Any) -> Any:
    kind = type(value)
    if kind is bytes or kind is int:
        return value
    if kind is float:
        return int(value)
    if value is None or value is False:
        return None
    if value is True:
        return 1
    if value[b"ok"] is not None:
        return value[b"ok"]
    return [_from_lua(one) for one in value.values()]
