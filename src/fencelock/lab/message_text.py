"""Text for the messages on a simulated connection to Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

from .value import is_list

WATCH = "watch fires"
"""The beginning of the text of a watch event."""
WORDS_MAX = 5
LONG = 24


def describe(what: object) -> str:
    """Describe a request as commands, or replies as values."""
    if isinstance(what, bytes):
        from ..sim.nodes import parsed

        return "; ".join(_command(*command) for command in parsed(what))
    replies = cast("Sequence[Any]", what) if isinstance(what, list) else [what]
    return "; ".join(_value(one) for one in replies)


def _command(kind: bytes, digest: bytes, _: object, words: Sequence[Any]) -> str:
    if not digest:
        shown = [_value(one) for one in words]
        return " ".join(shown[:WORDS_MAX]) + (" …" if len(shown) > WORDS_MAX else "")
    name = script_names().get(digest, "a script")
    if kind == b"SCRIPT":
        return f"load {name}"
    return f"{name} {_value(words[1])}" if len(words) > 1 else name


def _value(one: Any) -> str:
    if one is None:
        return "nil"
    if isinstance(one, bytes):
        text = one.decode(errors="replace")
        return text if len(text) <= LONG else text[: LONG - 1] + "…"
    return _list(one) if is_list(one) else str(one)


def _list(values: list[Any]) -> str:
    return "[" + ", ".join(_value(value) for value in values[:WORDS_MAX]) + "]"


@cache
def script_names() -> Mapping[bytes, str]:
    """Return the name of each script, by its digest."""
    from ..sim import edge

    return edge.script_names()
