"""A universe: a document, the choices of its switches, edits of it, and a variant.

A call is ``{"document": ..., "switches": {...}, "edits": {"faults": [...], "scripts": {"A":
[...]}}, "variant": {...}}``, and all but the document may be left out. Switches are set first. An
edit replaces all faults, or the whole script of an actor. The steps and expectations of a document
are about the play without edits: with edits they are left out.
"""

from __future__ import annotations

from typing import Any, cast

from ..errors import UsageError
from .player import LIVE_STEPS_MAX, play
from .switches import chosen
from .variant import variants, varied

FIELDS = ("document", "switches", "edits", "variant")


def played(call: object) -> dict[str, Any]:
    """Play the universe of a call: return the trace's data, the played document, its variants."""
    fields = object_of(call, "", *FIELDS)
    raw = object_of(fields.get("document"), "document")
    switches = _texts(fields.get("switches", {}), "switches")
    edits = object_of(fields.get("edits", {}), "edits", "faults", "scripts")
    variant = _texts(fields.get("variant", {}), "variant")
    document = _edited(chosen(raw, **switches), edits)
    if variant:
        document = varied(document, variant)
    answer = {**play(document, steps_max=LIVE_STEPS_MAX).data, "document": document}
    return answer if variant else {**answer, "variants": variants(document)}


def _texts(raw: object, where: str) -> dict[str, str]:
    found = object_of(raw, where)
    if not all(isinstance(one, str) for one in found.values()):
        raise UsageError(f"{where}: an object with names and choices is wanted")
    return found


def _edited(document: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    if not edits:
        return document
    kept = {name: one for name, one in document.items() if name not in ("steps", "expect")}
    if "faults" in edits:
        kept["faults"] = edits["faults"]
    scripts = object_of(edits.get("scripts", {}), "edits.scripts")
    actors = object_of(kept.get("actors", {}), "actors")
    for name, script in scripts.items():
        if name not in actors:
            raise UsageError(f"edits.scripts: there is no actor {name!r}, but {', '.join(actors)}")
        actors |= {name: {**object_of(actors[name], f"actors.{name}"), "script": script}}
    return kept | {"actors": actors}


def object_of(raw: object, where: str, *known: str) -> dict[str, Any]:
    """Check that a value is an object and, if names are given, that it has no others."""
    if not isinstance(raw, dict):
        place = f"{where}: " if where else "a call: "
        raise UsageError(f"{place}an object with names and values is wanted")
    fields = cast("dict[str, Any]", raw)
    unknown = sorted(set(fields) - set(known)) if known else []
    if unknown:
        place = f"{where}: " if where else ""
        raise UsageError(f"{place}{unknown[0]!r} is unknown; there are {', '.join(known)}")
    return fields
