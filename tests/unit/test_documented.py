"""Whatever there is has its place in the documents: engines, names, verbs and changes."""

from __future__ import annotations

import re

import pytest

import fencelock
from fencelock import engines
from fencelock.cli.main import VERBS
from fencelock.engine import Address, Engine
from fencelock.engines.mysql import observers
from fencelock.recipes import board
from tests.unit.pages import ROOT, prose

HEADINGS = [
    "Example",
    "What it guarantees",
    "What it does not",
    "How it works (keys, tables, scripts)",
    "Options",
]


def rows(text: str) -> dict[str, list[str]]:
    """The engine matrix: the cells of each row, by each scheme that it names."""
    lines = text.partition("\n## Engines\n")[2].partition("\n## ")[0].splitlines()
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"
    ]
    return {
        name: cells[1:]
        for cells in table[2:]
        for name in re.sub(r"\[(\w+)\]\([^)]*\)", r"\1", cells[0]).split(", ")
    }


@pytest.mark.parametrize("scheme", sorted(engines.TABLE))
def test_an_engine_has_a_row_that_says_what_its_traits_say(scheme: str) -> None:
    status, *promised = rows((ROOT / "README.md").read_text(encoding="utf-8"))[scheme]
    traits = engines.find(scheme).traits
    assert status.startswith("available")
    assert promised == [
        traits.safety,
        traits.scope,
        "yes" if traits.fence else "no",
        "FIFO" if traits.fifo else "none",
        "yes" if traits.push else "no",
        "yes" if traits.durable else "no",
    ]


def test_the_matrix_lists_no_engine_that_is_not_there() -> None:
    assert {*rows((ROOT / "README.md").read_text(encoding="utf-8"))} == {*engines.TABLE}


@pytest.mark.parametrize("scheme", sorted(engines.TABLE))
def test_an_engine_has_a_page_with_the_same_headings_as_all(scheme: str) -> None:
    page = ROOT / "docs" / "engines" / f"{engines.find(scheme).schemes[0]}.md"
    text = prose(page.read_text(encoding="utf-8"))
    assert re.findall(r"(?m)^## (.+)$", text) == HEADINGS
    assert len(re.findall(r"(?m)^# ", text)) == 1


@pytest.mark.parametrize("scheme", sorted(engines.TABLE))
def test_a_page_lists_every_option_of_its_engine(scheme: str) -> None:
    engine = engines.find(scheme)
    text = (ROOT / "docs" / "engines" / f"{engine.schemes[0]}.md").read_text(encoding="utf-8")
    listed = re.findall(r"(?m)^\| `(\w+)` \|", text.partition("\n## Options\n")[2])
    assert sorted(listed) == sorted(engine.options)


def test_no_page_is_about_an_engine_that_is_not_there() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "engines").glob("*.md")}
    assert pages == {engines.find(scheme).schemes[0] for scheme in engines.TABLE}


YES = {True: "yes", False: "no"}


def row_of(scheme: str, mode: str) -> list[str]:
    """What the page of recipes must say of an engine."""
    options = {"mode": mode} if mode else {}
    engine = engines.find(scheme).chosen(Address(scheme, options=options))
    traits = engine.traits
    holds = traits.portable or traits.scope == "process"
    recipes = [traits.shared, True, traits.remembers, traits.shared and traits.remembers]
    lasting = [holds, not engine.session_bound, traits.portable]
    told = "pushed"
    if engine.observe is Engine.observe:
        told = f"look each {board.LOOK_S:g} s"
    elif scheme == "mysql":
        told = f"look each {observers.POLL_S:g} s"
    return [*(YES[cell] for cell in (*recipes, *lasting)), told]


def test_the_matrix_of_recipes_says_what_engines_promise() -> None:
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    found = {name: cells for name, *cells in rows[1:]}
    assert {name.split(" ")[0] for name in found} == {
        engines.find(scheme).schemes[0] for scheme in engines.TABLE
    }
    for name, cells in found.items():
        scheme, _, mode = name.partition(" mode=")
        assert cells == row_of(scheme, mode), name


# The public surface


@pytest.mark.parametrize("name", fencelock.__all__)
def test_what_is_exported_is_documented(name: str) -> None:
    assert re.search(
        rf"\b{re.escape(name)}\b", (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    )


@pytest.mark.parametrize(
    "kind",
    [
        "Client", "Lock", "Locks", "RWLock", "Lease", "Leases", "Lost", "Election", "Once",
        "Barrier", "Latch",
    ],
)  # fmt: skip
def test_every_method_is_documented(kind: str) -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    public = [name for name in dir(getattr(fencelock, kind)) if not name.startswith("_")]
    assert [name for name in public if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_of_the_command_line_is_documented(verb: str) -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"(fencelock |`){verb}\b", text)


def test_the_changes_of_this_version_are_told() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"(?m)^## \[?{re.escape(fencelock.__version__)}\]?", text)
