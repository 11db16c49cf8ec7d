"""Imports point one way, and only worlds and wires touch the machine.

The tables below are the drawing of the layers. Every module of the package has its place in them:
a new one fails here until it is placed. Every import counts, at the top of a module or inside a
function, and so does `import_module("...")` of a literal name. Only an `__init__.py` may import
upward, under `if TYPE_CHECKING:`: that is how it gives types to what it loads lazily.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src"

ROOT = "fencelock"  # fencelock/__init__.py: what a user imports
REGISTRY = "engines"  # engines/__init__.py: finds an engine by its URL scheme
# What engines share.
FLOORS = {
    "_google",
    "backoff",
    "_http",
    "_sql",
    "doctor",
    "lending_pool",
    "options",
    "shared_session",
    "timer",
    "units",
    "url",
    "waiters",
}
ABOVE = {
    "redlock": "redis"
}  # an engine over another: the connections, keys and scripts of that one

# Each row may import the rows above it. Two parts of one row do not know each other.
SPINE = (
    ("errors",),
    ("model",),
    ("observe",),
    ("world",),
    ("engine",),
    ("_client",),
    ("sync", "aio"),
    (ROOT,),
    ("judge",),
    ("recipes",),
    ("service",),
    ("lab",),
    ("cli", "integrations", "demo", "etcd", "sql"),
    ("__main__",),
)

# The parts beside the spine: what they may import, and which parts of the spine may import them.
SIDES = {
    "worlds": (
        {"errors", "model", "wires", "world"},
        {"sync", "aio", "judge", "recipes", "service"},
    ),
    "sim": (
        {"errors", "model", "world", "engine", REGISTRY, "guards", "judge", "service", "worlds"},
        {"lab"},
    ),
    "wires": ({"errors", "model"}, set[str]()),
    REGISTRY: (
        {"errors", "model", "world", "engine", "observe", "wires"},
        {"sync", "aio", "cli", "service", "lab"},
    ),
    "web": (set[str](), {"service", "lab"}),
    "telemetry": ({"errors", "model", "observe"}, {"service", "cli", "integrations"}),
    "guards": (
        {"errors", "model", "observe"},
        {"recipes", "cli", "service", "integrations", "demo", "sql"},
    ),
}

TESTING = "testing"  # may import all; nothing else imports it

# A client makes recipes, which stand above it: it names them for types, and when it makes one.
MADE = {"recipes": {"sync", "aio"}}

RANK = {part: rank for rank, parts in enumerate(SPINE) for part in parts}

# Parts of `_client` that belong to one flavor, or to what a user writes.
FACADES = {"cancel_scope", "facade", "lock_options"}
EDGES = {
    "app",
    "audit",
    "config",
    "protocol",
    "server",
    "tls_listener",
    "workers",
}  # of `service`: sockets, files, signals and the event loop
FLAVORS = {"sync", "aio", "several_sync", "several_aio"}  # and those of `recipes`

# Time, chance, identity, waiting and the operating system: protocol code asks its World for them.
# fmt: off
MACHINE = {
    "_thread", "asyncio", "concurrent", "multiprocessing", "os", "queue", "random", "secrets",
    "select", "selectors", "signal", "socket", "subprocess", "threading", "time", "uuid",
}
# fmt: on

# What `import fencelock` must not load, directly or not: every user would pay, on every start.
HEAVY = {"asyncio", "dataclasses", "importlib.metadata", "json", "logging", "sqlite3", "urllib"}


class Import(NamedTuple):
    target: str  # the module named, in full
    line: int
    is_late: bool = False  # within a function, or for types only


class Module(NamedTuple):
    name: str
    file: Path
    imports: list[Import]

    @property
    def part(self) -> str:
        return part_of(self.name)

    @property
    def is_protocol(self) -> bool:
        """Written once over an injected World: the contract, the logic, the core, the engines."""
        match self.name.split(".")[1:]:
            case ["_client", name]:
                return name not in FACADES
            case ["recipes", name]:
                return name not in FLAVORS
            case ["service", name]:
                return name not in EDGES
            case ["engine"]:
                return True
            case ["engines", "url"]:
                return False
            case ["engines", _]:
                return self.file.name != "__init__.py"
            case ["engines", _, *rest]:
                return rest == ["engine"]
        return False


def part_of(name: str) -> str:
    """`fencelock._client.keeper` belongs to `logic`, and `fencelock` itself to `fencelock`."""
    return name.split(".")[1] if "." in name else name


def read_tree(source: Path) -> list[Module]:
    files = {name_of(file, source): file for file in sorted((source / ROOT).rglob("*.py"))}
    return [Module(name, file, [*imports_of(file, name, files)]) for name, file in files.items()]


def name_of(file: Path, source: Path) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(
    file: Path, name: str, known: dict[str, Path], *, with_types: bool = True
) -> Iterator[Import]:
    is_package = file.name == "__init__.py"
    package = name if is_package else name.rpartition(".")[0]
    tree = ast.parse(file.read_bytes(), str(file))
    for node, late in walk(tree, skip_type_checking=is_package or not with_types):
        match node:
            case ast.Import(names=names):
                yield from (Import(alias.name, node.lineno, late) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = absolute(package, module, level)
                for alias in names:  # a submodule, or a name inside `base`
                    inner = f"{base}.{alias.name}"
                    target = inner if inner in known else base
                    yield Import(target, node.lineno, late)
            case ast.Call(args=[ast.Constant(value=str(target)), *_]) if is_importer(node.func):
                level = len(target) - len(target.lstrip("."))
                yield Import(absolute(package, target[level:], level), node.lineno)


def is_late(node: ast.AST) -> bool:
    """Whether what is imported inside is not imported together with the module."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
        isinstance(node, ast.If) and is_type_checking(node.test)
    )


def is_importer(func: ast.expr) -> bool:
    return last_name(func) in {"import_module", "__import__"}


def last_name(expression: ast.expr) -> str:
    """`b` of `b` and of `a.b`."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def walk(tree: ast.AST, *, skip_type_checking: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, in the order of the text, and whether it is late."""
    stack = [(tree, False)]
    while stack:
        node, late = stack.pop()
        yield node, late
        late = late or is_late(node)
        children: list[ast.AST] = list(ast.iter_child_nodes(node))
        if skip_type_checking and isinstance(node, ast.If) and is_type_checking(node.test):
            children = list(node.orelse)
        stack += [(child, late) for child in reversed(children)]


def is_type_checking(test: ast.expr) -> bool:
    return last_name(test) == "TYPE_CHECKING"


def absolute(package: str, module: str | None, level: int) -> str:
    if not level:
        return module or ""
    parents = package.split(".")
    return ".".join([*parents[: len(parents) - level + 1], *([module] if module else [])])


def faults(source: Path) -> list[str]:
    """Every import that breaks a rule, as `file:line: why`."""
    found = []
    for module in read_tree(source):
        where = module.file.relative_to(source)
        if not is_placed(module.part):
            found.append(f"{where}:1: place `{module.part}` in the tables of {Path(__file__).name}")
            continue
        for target, line, late in module.imports:
            if target.partition(".")[0] == ROOT:
                made_here = late and module.part in MADE.get(part_of(target), ())
                why = None if made_here else why_not(module, target)
            elif module.is_protocol and target.partition(".")[0] in MACHINE:
                why = f"protocol code asks its World, it does not import {target}"
            else:
                why = None
            if why:
                found.append(f"{where}:{line}: {why}")
    return found


def is_placed(part: str) -> bool:
    return part in RANK or part in SIDES or part == TESTING


def why_not(module: Module, target: str) -> str | None:
    """The reason why `module` may not import `target`, or None when it may."""
    here, there = module.part, part_of(target)
    refusal = f"{here} may not import {target}"
    if not is_placed(there):
        return f"{refusal}: there is no such part"
    if here == TESTING:
        return None
    if there == TESTING:
        return f"{refusal}: only testing imports testing"
    if here == there:
        return why_not_within(module, target)
    if here in SIDES:
        allowed = SIDES[here][0]
        return None if there in allowed else f"{refusal}, only {', '.join(sorted(allowed))}"
    if there in SIDES:
        allowed = SIDES[there][1]
        if there == REGISTRY and target != f"{ROOT}.{REGISTRY}":
            return f"{refusal}: engines are found through the registry"
        if there == "worlds" and module.is_protocol:
            return f"{refusal}: protocol code is given its World"
        return None if here in allowed else f"{refusal}, only {', '.join(sorted(allowed))} may"
    return None if RANK[there] < RANK[here] else f"{refusal}: imports point down the spine"


def why_not_within(module: Module, target: str) -> str | None:
    """A part is free inside, but engines know neither each other nor the registry."""
    if module.part != REGISTRY or module.name == f"{ROOT}.{REGISTRY}":
        return None
    here, there = module.name.split(".")[2], [*target.split("."), "", ""][2]
    if here == there or there in FLOORS or ABOVE.get(here) == there:
        return None
    return f"{module.name} may not import {target}: an engine knows only its own folder"


def circle(source: Path) -> list[str]:
    """Modules that import each other in a circle, be it for types only, or late; empty if none do.

    Two late imports make no circle: a client makes the recipes of its flavor, which have its
    leases; and the door of a folder loads the module for a flavor once it is needed.
    """
    modules = {module.name: module for module in read_tree(source)}
    graph = {
        name: {
            target
            for target, _, late in module.imports
            if target in modules and not (late and makes_or_loads(module, target))
        }
        for name, module in modules.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def makes_or_loads(module: Module, target: str) -> bool:
    return module.part in MADE.get(part_of(target), ()) or target.startswith(f"{module.name}.")


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(SOURCE) == []


@pytest.mark.parametrize("how", ["{}", "def f():\n    {}", "if TYPE_CHECKING:\n    {}"])
def test_a_circle_is_found(tmp_path: Path, how: str) -> None:
    plant(tmp_path, "wires/pool.py", "from .turns import Turn")
    (tmp_path / ROOT / "wires/turns.py").write_text(how.format("from .pool import Pool"))
    assert set(circle(tmp_path)) == {f"{ROOT}.wires.pool", f"{ROOT}.wires.turns"}


def test_imports_point_the_right_way() -> None:
    assert len(read_tree(SOURCE)) > 1, f"no package in {SOURCE}"
    assert faults(SOURCE) == []


@pytest.mark.parametrize(
    ("file", "code", "why"),
    [
        ("errors.py", "from .model import Grant", "errors may not import fencelock.model"),
        ("world.py", "from . import engine", "world may not import fencelock.engine"),
        ("_client/keeper.py", "def f():\n    from ..sync import Lock", "_client may not import"),
        ("_client/keeper.py", "import time", "does not import time"),
        ("_client/keeper.py", "def f():\n    from os.path import join", "does not import os.path"),
        ("_client/client.py", "import asyncio.events", "does not import asyncio.events"),
        ("cli/run.py", "from fencelock.engines import memory", "found through the registry"),
        ("_client/client.py", "from .. import engines", "only aio, cli, lab, service, sync may"),
        ("sync.py", "import fencelock.aio", "sync may not import fencelock.aio"),
        ("sync.py", "from .recipes import X", "sync may not import"),
        ("sync.py", "class C:\n    from .recipes import X", "sync may not import"),
        ("sync.py", "if TYPE_CHECKING:\n    from .cli import X", "sync may not import"),
        ("model.py", "def f():\n    from .recipes import X", "model may not import"),
        ("aio.py", "import importlib as i\ni.import_module('.cli', 'fencelock')", "import"),
        ("model.py", "import fencelock", "model may not import fencelock"),
        ("__init__.py", "if not TYPE_CHECKING:\n    from . import cli", "fencelock may not import"),
        ("__init__.py", "from .recipes import Once", "fencelock may not import fencelock.recipes"),
        ("recipes/once.py", "from fencelock.worlds.threads import X", "is given its World"),
        ("recipes/once.py", "import time", "does not import time"),
        (
            "cli/main.py",
            "from fencelock.worlds.threads import X",
            "aio, judge, recipes, service, sync may",
        ),
        ("worlds/threads.py", "from ..engine import Engine", "only errors, model, wires, world"),
        (
            "sim/world.py",
            "from ..sync import Client",
            "only engine, engines, errors, guards, judge",
        ),
        ("guards/sql.py", "from ..engine import Engine", "only errors, model, observe"),
        ("wires/disconnect_monitor.py", "from ..world import World", "only errors, model"),
        ("sync.py", "from .wires import disconnect_monitor", "sync may not import fencelock.wires"),
        ("engines/memory.py", "from random import random", "does not import random"),
        ("engines/memory.py", "from .sqlite import engine", "only its own folder"),
        ("engines/redlock/engine.py", "from ..sqlite import engine", "only its own folder"),
        ("engines/redis/engine.py", "from ..redlock import quorum", "only its own folder"),
        ("engines/memory.py", "from . import find", "only its own folder"),
        ("engines/sqlite/engine.py", "import threading", "does not import threading"),
        ("engines/sqlite/wire.py", "from ..._client import keeper", "engines may not import"),
        ("cli/main.py", "from ..testing import check", "only testing imports testing"),
        ("cli/main.py", "from ..helpers import x", "there is no such part"),
        ("helpers.py", "", "place `helpers` in the tables"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, file: str, code: str, why: str) -> None:
    plant(tmp_path, file, code)
    found = faults(tmp_path)
    assert len(found) == 1
    assert why in found[0]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("_client/keeper.py", "from ..engine import Engine\nfrom . import policy"),
        ("sync.py", "from . import engines\nfrom .engines import find"),
        ("sync.py", "class C:\n    def f(self):\n        from .recipes import X"),
        ("sync.py", "if TYPE_CHECKING:\n    from .recipes import X"),
        ("recipes/sync.py", "from ..worlds.threads import drive"),
        ("__init__.py", "if TYPE_CHECKING:\n    from . import cli"),
        ("recipes/once.py", "import fencelock\nfrom fencelock import aio, sync, connect"),
        ("engines/__init__.py", "def find():\n    from .memory import Memory"),
        ("engines/sqlite/__init__.py", "from .engine import Sqlite"),
        ("engines/memory.py", "from . import timer"),
        ("engines/redlock/engine.py", "from ..redis import keys"),
        ("engines/sqlite/wire.py", "import asyncio, threading\nfrom ...errors import Unavailable"),
        ("worlds/threads.py", "import threading, time\nfrom .host import Host"),
        ("testing/check.py", "from ..engines.memory import Memory\nfrom .. import _client, cli"),
    ],
)
def test_a_right_import_is_not(tmp_path: Path, file: str, code: str) -> None:
    plant(tmp_path, file, code)
    assert faults(tmp_path) == []


def plant(source: Path, file: str, code: str) -> None:
    """A package with an empty module of each kind, and `code` in one of them."""
    kinds = [
        "__init__.py",
        "engine.py",
        "aio.py",
        "sync.py",
        "cli/__init__.py",
        "recipes/__init__.py",
        "_client/policy.py",
    ]
    engines = [
        "engines/__init__.py",
        "engines/timer.py",
        "engines/memory.py",
        "engines/sqlite/engine.py",
    ]
    for name in [*kinds, *engines, file]:
        path = source / ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code if name == file else "")


def test_importing_the_package_loads_nothing_heavy() -> None:
    # A bare interpreter (-I -S), so nothing is loaded already; installed drivers are within reach.
    code = "import sys; sys.path[:0] = sys.argv[1:]; import fencelock; print(*sys.modules)"
    paths = [str(SOURCE), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *paths], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    loaded = set(run.stdout.split())
    assert ROOT in loaded
    assert sorted(loaded & HEAVY) == []
    tops = {name.partition(".")[0] for name in loaded}
    assert sorted(tops - sys.stdlib_module_names - {ROOT, "__main__"}) == []
