"""The tables and functions of the modes in the database: ``sql/schema.sql`` and its companions."""

from __future__ import annotations

import re

from ...errors import Misconfigured
from .statements import ADVISORY, SCHEMA, fill_in, qualified, text_of

_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,30}")
_PARTS = ("schema", "handover", "acquire", "maintenance", "fence_counter")
_SHARES = ("share_schema", "share_functions")


def schema(table: str = "fencelock", namespace: str = SCHEMA) -> str:
    """Return the statements that create everything; running them again does no harm."""
    parts = [part(table, namespace) for part in (store, shares, several, leave_queue)]
    return "\n".join((*parts, fence_counter(ADVISORY)))


def store(table: str, namespace: str) -> str:
    """Return the statements that create the tables and functions that all modes share."""
    return _filled_in(_PARTS, table, namespace)


def shares(table: str, namespace: str) -> str:
    """Return the statements that create what semaphores, read/write locks and memos also need."""
    return _filled_in(_SHARES, table, namespace)


def several(table: str, namespace: str) -> str:
    """Return the statement that creates the function which takes several locks at once."""
    return _filled_in(("several",), table, namespace)


def leave_queue(table: str, namespace: str) -> str:
    """Return the statement that creates the function by which one client stops waiting."""
    return _filled_in(("leave_queue",), table, namespace)


def _filled_in(parts: tuple[str, ...], table: str, namespace: str) -> str:
    for name in (table, namespace):
        check_identifier(name)
    text = "\n".join(text_of(part) for part in parts)
    return fill_in(text, table, namespace, qualified(table, namespace))


def fence_counter(counter: str) -> str:
    """Return the statements that create a sequence of fences, and the function that raises it."""
    return fill_in(text_of("fence_counter"), "", "", counter)


def check_identifier(value: object) -> str:
    """Check the prefix of tables, or the name of a schema: identifiers are never quoted by hand."""
    if not isinstance(value, str) or not _IDENTIFIER.fullmatch(value):
        raise Misconfigured(
            f"{value!r} is no name for tables here: up to 31 of a-z, 0-9 and _, no digit first"
        )
    return value
