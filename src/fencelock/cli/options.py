"""Readers of arguments that several verbs share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from ..errors import UsageError


def number_of(lowest: int, highest: int) -> Callable[[str], int]:
    """A reader of whole numbers within bounds."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no whole number from {lowest} to {highest}"
            )
        return int(text)

    return read


def meta_of(pairs: Sequence[str]) -> dict[str, str]:
    """Words about a hold, from ``--meta key=value``."""
    words: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--meta is written key=value, not {pair!r}")
        words[key] = value
    return words
