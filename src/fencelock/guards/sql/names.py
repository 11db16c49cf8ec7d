"""Check identifiers, which become part of a statement, and names, which are parameters."""

from __future__ import annotations

import re

from ...errors import UsageError

__all__ = ["NAME_BYTES_MAX", "check_identifier", "check_name", "quote"]

NAME_BYTES_MAX = 512  # as for the names of locks; fits an index of any of the databases
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def check_identifier(text: object, what: str, dotted: bool = False) -> str:
    """Return the name of a table or column, or raise UsageError."""
    parts = text.split(".") if isinstance(text, str) else []
    plain = bool(parts) and all(_IDENTIFIER.fullmatch(part) for part in parts)
    if plain and len(parts) <= (2 if dotted else 1):
        return ".".join(parts)
    form = "letters, digits and _, at most 63 of them and not beginning with a digit"
    raise UsageError(
        f"the name of a {what} has {form}{', with or without a schema' if dotted else ''}: "
        f"not {text!r:.100}"
    )


def quote(identifier: str, mark: str) -> str:
    """Quote a checked identifier, so that its case is kept."""
    return ".".join(f"{mark}{part}{mark}" for part in identifier.split("."))


def check_name(name: str) -> str:
    """Return a guarded name, or raise UsageError if not every database could store it unchanged."""
    if name.isascii() and name.isprintable() and len(name) <= NAME_BYTES_MAX:
        return name
    for index, char in enumerate(name):
        if char < " " or "\x7f" <= char <= "\x9f":
            raise UsageError(
                "what is guarded has a name without control characters: "
                f"U+{ord(char):04X} stands at position {index} of {name[:80]!r}"
            )
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise UsageError(
            "what is guarded has a name of valid Unicode: a lone surrogate stands at position "
            f"{error.start}"
        ) from None
    if size > NAME_BYTES_MAX:
        raise UsageError(
            f"what is guarded has a name of at most {NAME_BYTES_MAX} bytes of UTF-8, this one has "
            f"{size}: guard by a hash of it instead"
        )
    return name
