"""The switches of a document: their combinations, and the document with choices applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, cast

from ..errors import UsageError
from .value import Value


def combinations(raw: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Iterate over every combination of the switches of a document, the defaults first."""
    switches = Value(raw, "").get("switches").entries()
    choices = {name: list(value.entries()) for name, value in switches.items()}
    for picked in product(*choices.values()):
        yield dict(zip(choices, picked, strict=True))


def chosen(raw: Mapping[str, Any], /, **switches: str) -> dict[str, Any]:
    """Return the document with these switches set, the others at their first choice.

    A choice is a patch: its fields replace those of the document, and null removes one.
    """
    value = Value(raw, "")
    known = value.get("switches").entries()
    unknown = sorted(set(switches) - set(known))
    if unknown:
        has = ", ".join(known) or "none"
        raise UsageError(f"switches: there is no switch {unknown[0]!r}; this document has {has}")
    document: dict[str, Any] = {name: one for name, one in raw.items() if name != "switches"}
    picked: list[str] = []
    for name, switch in known.items():
        choices = switch.entries()
        if not choices:
            raise UsageError(f"{switch.where}: a switch has at least one choice")
        choice = switches.get(name, next(iter(choices)))
        if choice not in choices:
            raise UsageError(
                f"{switch.where}: there is no choice {choice!r}; there are {', '.join(choices)}"
            )
        picked.append(choice)
        document = _patched(document, choices[choice].mapping())
    expect = value.get("expect").entries()
    if expect:
        key = ", ".join(picked) or "played"
        if key not in expect:
            raise UsageError(f"expect: nothing is said about {key!r}")
        document["expect"] = {"played": expect[key].raw}
    return document


def _patched(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(document)
    for name, one in patch.items():
        if one is None:
            result.pop(name, None)
        elif isinstance(one, dict) and isinstance(result.get(name), dict):
            result[name] = _patched(result[name], cast("dict[str, Any]", one))
        else:
            result[name] = one
    return result
