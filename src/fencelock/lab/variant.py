"""Variants of a document, to compare it with: other clients, or another engine.

A variant is ``{}``, ``{"clients": "textbook"}`` or ``{"engine": "zookeeper"}``. The steps and
expectations of a document are about the document itself: a variant has neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ..errors import UsageError
from .document import SERVERS, SESSION_MAX_S, SESSION_MIN_S, read

CLIENTS = ("fencelock", "textbook")


def varied(document: Mapping[str, Any], variant: Mapping[str, str]) -> dict[str, Any]:
    """Return the document changed by a variant; its switches must have been set."""
    kept = {name: one for name, one in document.items() if name not in ("steps", "expect")}
    for name, wanted in variant.items():
        if name == "clients" and wanted in CLIENTS:
            kept = _with_clients(kept, wanted)
        elif name == "engine" and wanted in SERVERS:
            kept = _over_engine(kept, wanted)
        else:
            raise UsageError(f"variant: there is no {name} {wanted!r} to be compared with")
    return kept


def variants(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the variants that a document can be compared with, each with its name as text."""
    return [{"variant": variant, "words": words} for variant, words in _possible(document)]


def _possible(document: Mapping[str, Any]) -> Iterator[tuple[dict[str, str], str]]:
    as_it_is = varied(document, {})
    wanted = [("clients", one) for one in CLIENTS] + [("engine", one) for one in SERVERS]
    for name, one in wanted:
        try:
            other = varied(document, {name: one})
            read(other)
        except UsageError:
            continue  # this variant cannot be played: a recipe for another engine, say
        if other == as_it_is:
            continue
        missing = len(_faults(as_it_is)) - len(_faults(other))
        less = f", without {missing} of its faults" if missing else ""
        yield {name: one}, f"{name}: {one}{less}"


def _with_clients(document: dict[str, Any], client: str) -> dict[str, Any]:
    """Replace all clients of a server by such clients; without fences there is no guard."""
    actors = {
        name: {field: one for field, one in actor.items() if field != "recipe"} | {"client": client}
        if actor.get("client", CLIENTS[0]) in CLIENTS and actor.get("client") != client
        else actor
        for name, actor in document["actors"].items()
    }
    fenced = all(actor.get("client", CLIENTS[0]) == "fencelock" for actor in actors.values())
    if actors == document["actors"]:
        return document
    return document | {
        "actors": actors,
        "resource": {**document.get("resource", {}), "guard": fenced},
    }


def _over_engine(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """Replace the engine; a fault of a server becomes one of the server at the same index, if any.

    A ZooKeeper session's timeout is the longest ttl, so that a lock is free as soon.
    """
    before = read(document)
    if before.engine == kind:
        return document
    engine: dict[str, Any] = {"kind": kind}
    ttls = [line.ttl for actor in before.actors for line in actor.script if line.ttl]
    if kind == "zookeeper" and ttls:
        engine["session"] = min(max(*ttls, SESSION_MIN_S), SESSION_MAX_S)
    other = document | {"engine": engine}
    after = read({name: one for name, one in other.items() if name != "faults"})
    moved = (_moved(one, before.servers, after.servers) for one in _faults(document))
    return other | {"faults": [one for one in moved if one is not None]}


def _moved(
    fault: Mapping[str, Any], before: Sequence[str], after: Sequence[str]
) -> dict[str, Any] | None:
    """Return a fault with the names of other servers; None if it concerns none of them."""
    moved = dict(fault)
    for field in ("whom", "from", "to"):
        if field not in fault:
            continue
        named = cast("list[str]", [fault[field]] if isinstance(fault[field], str) else fault[field])
        if field != "whom" and set(before) <= set(named):
            found = [one for one in named if one not in before] + list(after)
        else:
            places = [before.index(one) if one in before else -1 for one in named]
            found = [
                one if place < 0 else after[place]
                for one, place in zip(named, places, strict=True)
                if place < len(after)
            ]
        if not found:
            return None
        moved[field] = found[0] if len(found) == 1 else found
    return moved


def _faults(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return document.get("faults") or []
