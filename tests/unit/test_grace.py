"""The longer grace of the tests reaches every module that knows it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import fencelock
from tests.grace import lengthen_grace

SOURCE = Path(fencelock.__file__).parent
OTHERS = ("sim", "judge", "testing")
"""Those that have no real server, or that judge by the real one."""


def imports_it(path: Path, wanted: str) -> bool:
    text = path.read_text(encoding="utf-8")
    return wanted in text and any(
        isinstance(node, ast.ImportFrom) and any(name.name == wanted for name in node.names)
        for node in ast.walk(ast.parse(text))
    )


@pytest.mark.parametrize("wanted", ["GRACE_S", "REQUEST_TIMEOUT_S", "CONNECT_TIMEOUT_S"])
def test_every_user_of_a_limit_is_given_the_longer_one(wanted: str) -> None:
    found = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if imports_it(path, wanted)}
    known: set[Path] = set()

    def patch(module: object, name: str, _: object) -> None:
        if name == wanted:
            known.add(Path(vars(module)["__file__"]).relative_to(SOURCE))

    lengthen_grace(patch)
    assert known == {path for path in found if path.parts[0] not in OTHERS}
    assert known


@pytest.mark.parametrize("scheme", ["rediss", "redis+sentinel", "valkey", "mariadb", "https"])
def test_an_engine_is_known_by_each_of_its_schemes(scheme: str) -> None:
    known: list[str] = []
    lengthen_grace(lambda module, name, value: known.append(name), scheme=scheme)
    assert known.count("REQUEST_TIMEOUT_S") == 1
