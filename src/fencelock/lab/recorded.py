"""The page as one file, with every play that its switches allow: for readers without the lab.

It records the answers that the live page would get: a document in each combination of its
switches, with and without its edits, and the variants that each can be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from .. import __version__
from ..errors import FencelockError, UsageError
from ..web.bundle import one_file
from .palette import palette
from .switches import combinations
from .universe import object_of, played

SIZE_MAX = 400_000
COMBINATIONS_MAX = 64


def recorded_page(
    document: Mapping[str, Any],
    *,
    name: str,
    own: bool = False,
    choices: Mapping[str, str] | None = None,
    edits: Mapping[str, Any] | None = None,
) -> str:
    """Return one HTML file that shows the document, with these choices and edits first.

    If it is too large, the variants are left out; if it still is, UsageError is raised.
    """
    switches: Mapping[str, Any] = document.get("switches") or {}
    count = prod(len(one) for one in switches.values())
    if count > COMBINATIONS_MAX:
        raise UsageError(
            f"switches: {count} combinations are too many for one file: {COMBINATIONS_MAX} at the "
            "most; set some of the switches first"
        )
    first = {"choices": dict(choices or {}), "edits": dict(edits or {})}
    file = name.replace("\\", "/").rpartition("/")[2]  # its folders are private
    facts: dict[str, Any] = {"name": file, "own": own, "document": document, **first}
    facts |= {"version": __version__, "faults": palette()}
    page = ""
    for with_variants in (True, False):
        plays = list(plays_of(document, first["edits"], with_variants=with_variants))
        page = one_file("lab", data=facts | {"plays": plays})
        if len(page.encode()) <= SIZE_MAX:
            return page
    raise UsageError(
        f"one file would have {len(page.encode()) // 1000} kB, {SIZE_MAX // 1000} at the most: set "
        "some of the switches first, or let less happen"
    )


def exported(call: object) -> str:
    """Return the file for the call of a page: with its name, document, switches and edits."""
    fields = object_of(call, "", "name", "own", "document", "switches", "edits")
    name, own = fields.get("name"), fields.get("own", False)
    if not isinstance(name, str) or not isinstance(own, bool):
        raise UsageError("name: a text is wanted, and own is true or false")
    universe = {key: one for key, one in fields.items() if key not in ("name", "own")}
    played(universe)  # raises UsageError now if something is wrong with it
    return recorded_page(
        fields["document"],
        name=name,
        own=own,
        choices=fields.get("switches"),
        edits=fields.get("edits"),
    )


def plays_of(
    document: Mapping[str, Any], edits: Mapping[str, Any], *, with_variants: bool
) -> Iterator[dict[str, Any]]:
    """Play a document in every combination of its switches, without edits and with them."""
    for choices in combinations(document):
        changes: list[Mapping[str, Any]] = [{}, edits] if edits else [{}]
        for changed in changes:
            call: dict[str, Any] = {"document": document, "switches": choices, "edits": changed}
            universe = {"choices": choices, "edits": changed}
            trace = played(call)
            possible: list[dict[str, Any]] = trace["variants"] if with_variants else []
            kept: list[dict[str, Any]] = []
            trace["variants"] = kept
            yield {**universe, "variant": {}, "trace": trace}
            for one in possible:
                try:
                    other = played({**call, "variant": one["variant"]})
                except FencelockError:
                    continue  # it takes too many steps, say
                kept.append(one)
                yield {**universe, "variant": one["variant"], "trace": other}
