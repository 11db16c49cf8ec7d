"""Read an SQL file whose parts are named: each begins with a line ``-- kind: name``."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD = re.compile(r"^-- [a-z]+: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)
_WORD = re.compile(r"\{(\w+)\}")


def sections(file: Path) -> dict[str, str]:
    """Return the parts of a file, by name, with their comments."""
    _, *parts = _HEAD.split(file.read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def composed(file: Path, **words: object) -> dict[str, str]:
    """Return the parts of a file, by name, each on one line and without comments.

    ``{word}`` stands for one of ``words``, or for an earlier part.
    """
    found = {word: str(value) for word, value in words.items()}
    for name, text in sections(file).items():
        filled = _WORD.sub(lambda word: found[word[1]], _COMMENT.sub("", text))
        found[name] = " ".join(filled.split()).replace("; ", ";")
    return found
