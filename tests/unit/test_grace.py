"""The longer grace of the tests reaches every module that knows it."""

from __future__ import annotations

import ast
from pathlib import Path

import fencelock
from tests.grace import lengthen_grace

SOURCE = Path(fencelock.__file__).parent
OTHERS = ("sim", "judge", "testing")
"""Those that have no real server, or that judge by the real one."""


def imports_it(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    return "GRACE_S" in text and any(
        isinstance(node, ast.ImportFrom) and any(name.name == "GRACE_S" for name in node.names)
        for node in ast.walk(ast.parse(text))
    )


def test_every_user_of_the_grace_is_given_the_longer_one() -> None:
    found = {path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if imports_it(path)}
    known: set[Path] = set()

    def patch(module: object, name: str, _: object) -> None:
        if name == "GRACE_S":
            known.add(Path(vars(module)["__file__"]).relative_to(SOURCE))

    lengthen_grace(patch)
    assert known == {path for path in found if path.parts[0] not in OTHERS}
