"""The laws of the house: where a line of the package belongs, and what things are called.

`test_layers.py` holds who may import whom. Here is what a reader relies on: an engine's recipe is
one file that can be read aloud, one noun is one file, and names are the words of the trade.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.test_layers import Module, imports_of, read_tree

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "fencelock"
ENGINES = PACKAGE / "engines"

# What a user may import by its module; everything else has an underscore or lies deeper.
PUBLIC = {
    "__init__",
    "__main__",
    "aio",
    "engine",
    "errors",
    "etcd",
    "model",
    "observe",
    "sql",
    "sync",
    "world",
}

RECIPE_LINES = 300
RECIPES = [
    "memory.py",
    "sqlite/engine.py",
    "sqlite/shares.py",
    "redis/engine.py",
    "redis/shares.py",
    "redlock/engine.py",
    "postgresql/lease.py",
    "postgresql/shares.py",
    "postgresql/advisory.py",
    "postgresql/row.py",
    "mysql/lease.py",
    "mysql/shares.py",
    "mysql/advisory.py",
    "zookeeper/engine.py",
    "zookeeper/queue.py",
    "zookeeper/shares.py",
    "zookeeper/takeover.py",
    "consul/engine.py",
    "dynamodb/engine.py",
    "spanner/engine.py",
    "hazelcast/engine.py",
    "etcd/engine.py",
    "firestore/engine.py",
    "http/engine.py",
    "etcd/rwlock.py",
    "etcd/semaphore.py",
]

# Words that a reader would have to translate, and modules that say what they do, not what they are.
RETIRED = {
    "ask",
    "asks",
    "ears",
    "hear",
    "lane",
    "line",
    "lines",
    "link",
    "links",
    "notes",
    "patience",
    "place",
    "round",
    "rounds",
    "stock",
    "talk",
    "talks",
    "warden",
}
GERUND = re.compile(r"ing$")
NOUNS = {"listing", "pending"}  # a list of locks; what is still to be confirmed
STATEMENT = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE TABLE|GET_LOCK)\b")
BYTES_AND_SOCKETS = {"asyncio", "select", "selectors", "socket", "ssl", "struct"}
WIRES = {"wire", "messages"}  # folders of an engine that know bytes


@cache
def tree() -> list[Module]:
    return read_tree(SOURCE)


def engine_of(file: Path) -> str:
    return file.relative_to(ENGINES).parts[0]


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes(), str(file))


def classes_of(file: Path) -> Iterator[ast.ClassDef]:
    return (node for node in parsed(file).body if isinstance(node, ast.ClassDef))


def words_of(name: str) -> list[str]:
    """`FanOutLines` and `fan_out_lines` are both fan, out, lines."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def docstrings(node: ast.AST) -> set[int]:
    """The constants that are docstrings: the strings that stand alone as a statement."""
    return {id(sub.value) for sub in ast.walk(node) if isinstance(sub, ast.Expr)}


def test_public_names_lie_at_the_root_and_nothing_else_does() -> None:
    assert {file.stem for file in PACKAGE.glob("*.py")} == PUBLIC


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_fits_one_page_and_knows_no_bytes(recipe: str) -> None:
    file = ENGINES / recipe
    code = parsed(file)
    assert len(file.read_text(encoding="utf-8").splitlines()) <= RECIPE_LINES
    (module,) = [module for module in tree() if module.file == file]
    assert not {one.target.partition(".")[0] for one in module.imports} & BYTES_AND_SOCKETS
    told = docstrings(code)
    for node in ast.walk(code):
        if isinstance(node, ast.Constant) and id(node) not in told:
            assert not isinstance(node.value, bytes), f"line {node.lineno}: bytes"
            is_sql = isinstance(node.value, str) and STATEMENT.search(node.value)
            assert not is_sql, f"line {node.lineno}: a statement"


def test_what_knows_sockets_lies_in_the_wire_of_its_engine() -> None:
    found = [
        f"{module.name}: {one.target}"
        for module in tree()
        if module.file.is_relative_to(ENGINES)
        and not WIRES & set(module.file.relative_to(ENGINES).parts)
        and not re.search(r"_(aio|threads)$", module.file.stem)
        for one in module.imports
        if one.target.partition(".")[0] in BYTES_AND_SOCKETS
    ]
    assert found == []


def test_no_class_name_occurs_twice_in_one_engine() -> None:
    seen = Counter(
        (engine_of(file), one.name) for file in ENGINES.rglob("*.py") for one in classes_of(file)
    )
    assert [key for key, times in seen.items() if times > 1] == []


def test_names_are_words_of_the_trade() -> None:
    found = []
    for file in PACKAGE.rglob("*.py"):
        where = file.relative_to(PACKAGE)
        found += [f"{where}" for word in words_of(file.stem) if word in RETIRED]
        for one in classes_of(file):
            found += [f"{where}: {one.name}" for word in words_of(one.name) if word in RETIRED]
    assert found == []


def test_a_module_of_an_engine_is_a_noun() -> None:
    files = [*ENGINES.rglob("*.py"), *(PACKAGE / "_client").glob("*.py")]
    assert [
        str(file) for file in files if GERUND.search(file.stem) and file.stem not in NOUNS
    ] == []


def test_no_class_is_cut_in_two_by_inheritance() -> None:
    """A class of an engine that only one other builds upon, in another file, is half a class."""
    home: dict[tuple[str, str], Path] = {}
    abstract: set[tuple[str, str]] = set()
    heirs: Counter[tuple[str, str]] = Counter()
    apart: list[tuple[tuple[str, str], Path]] = []
    files = [*ENGINES.rglob("*.py")]
    for file in files:
        for one in classes_of(file):
            home[engine_of(file), one.name] = file
            if {ast.unparse(base).partition("[")[0] for base in one.bases} & {"Protocol", "ABC"}:
                abstract.add((engine_of(file), one.name))
    for file in files:
        for one in classes_of(file):
            for base in one.bases:
                key = engine_of(file), ast.unparse(base).partition("[")[0]
                if key in home:
                    heirs[key] += 1
                    if home[key] != file:
                        apart.append((key, file))
    halves = [
        f"{file.relative_to(ENGINES)} continues {key[1]}"
        for key, file in apart
        if heirs[key] == 1 and key not in abstract
    ]
    assert halves == []


def test_items_that_others_change_are_taken_by_a_snapshot() -> None:
    """``list(d.items())`` may run finalizers, which may change ``d``: see ``world.snapshot``."""
    rooms = [PACKAGE / "_client", ENGINES, PACKAGE / "recipes", PACKAGE / "service"]
    texts = {file: file.read_text() for room in rooms for file in room.rglob("*.py")}
    found = [
        str(file.relative_to(PACKAGE))
        for file, text in texts.items()
        if re.search(r"\b(list|tuple|sorted)\(self\.[\w.]+\.items\(\)\)", text)
    ]
    assert found == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = {module.name: module.file for module in tree()}
    graph = {
        name: {one.target for one in imports_of(file, name, known, with_types=False)}
        for name, file in known.items()
        if file.name != "__init__.py"  # a package is loaded before what lies in it
    }
    found = [name for name in graph if reaches(graph, name)]
    assert found == []


def reaches(graph: dict[str, set[str]], start: str) -> bool:
    """Whether a way of imports leads from a module back to it."""
    seen: set[str] = set()
    todo = [*graph[start]]
    while todo:
        name = todo.pop()
        if name == start:
            return True
        if name in graph and name not in seen:
            seen.add(name)
            todo += graph[name]
    return False
