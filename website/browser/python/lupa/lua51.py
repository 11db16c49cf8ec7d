"""A Lua 5.1 as lupa has it without an encoding: its strings are bytes.

lupa is written in C and not to be had in a browser. Here the interpreter is another program in
WebAssembly; `lua.js` calls it, and is imported under the name `fencelock_lua`. Strings cross as
text with one letter for each byte.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_lua: Any = import_module("fencelock_lua")
_ffi: Any = import_module("pyodide.ffi")


class LuaError(Exception):
    """What a script raised, or why it cannot be compiled."""


class LuaRuntime:
    """The interpreter. There is one."""

    def __init__(self, encoding: None = None, unpack_returned_tuples: bool = True) -> None:
        pass

    def compile(self, source: bytes) -> Reference:
        """A function that runs the text."""
        try:
            return Reference(_lua.compile(source.decode("latin-1")))
        except _ffi.JsException as error:
            raise LuaError(error.message) from None


class Reference:
    """A table or a function of Lua, which keeps it as long as Python does."""

    __slots__ = ("proxy",)

    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy

    def __del__(self) -> None:
        _lua.drop(self.proxy)

    def __call__(self, *args: Any) -> Any:
        try:
            found = _lua.call(self.proxy, *[_given(one) for one in args])
        except _ffi.JsException as error:
            raise LuaError(error.message) from None
        values = [_taken(one) for one in found.to_py()]
        return tuple(values) if len(values) > 1 else values[0] if values else None


def _given(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Reference):
        return value.proxy
    if callable(value):
        return _lua.expose(_ffi.create_proxy(_exposed(value)))
    return float(value) if type(value) is int else value  # every number of Lua is a float


def _taken(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("latin-1")
    return Reference(value) if isinstance(value, _ffi.JsProxy) else value


def _exposed(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: _given(function(*[_taken(one) for one in args]))
