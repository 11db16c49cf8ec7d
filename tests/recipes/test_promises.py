"""Every recipe keeps its promises on every engine that has what it is built on, in both flavors.

An engine that learns to remember, to share or to observe is judged here without a word: what it
does not promise is in the table of the conformance tests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencelock.testing import conformance
from fencelock.testing.conformance import Check, Flavor
from tests.conformance.variants import NOT_PROMISED, VARIANTS
from tests.recipes import checks

CHECKS = [value for value in vars(checks).values() if isinstance(value, Check)]
# One of each store, and one whose grants end with a session: recipes do not know the engine.
ENGINES = [
    variant
    for variant in VARIANTS
    if " " not in variant and "+" not in variant and variant not in ("rediss", "valkey", "mysql")
]
BOUND = "postgresql mode=advisory"


def cases() -> Iterator[Any]:
    for check, variant, flavor in itertools.product(CHECKS, [*ENGINES, BOUND], conformance.FLAVORS):
        if not NOT_PROMISED.get(variant, set()) & {*check.needs}:
            yield pytest.param(check, variant, flavor, id=f"{check}-{variant}-{flavor}")


@pytest.mark.parametrize(("check", "variant", "flavor"), list(cases()))
def test_a_recipe_keeps_its_promise(
    check: Check, variant: str, flavor: Flavor, tmp_path: Path
) -> None:
    try:
        conformance.run(lambda: VARIANTS[variant](tmp_path), flavor, check)
    except conformance.NotApplicable as error:
        pytest.fail(f"{variant} promises less than before: {error}")


def test_the_memory_engine_is_judged_by_all() -> None:
    assert {"memory", "sqlite", "redis", "postgresql", "mariadb", "etcd", "zookeeper"} <= {*ENGINES}
    assert len(CHECKS) > 15
    assert not any(NOT_PROMISED["memory"] & {*check.needs} for check in CHECKS)
