"""Every engine keeps every promise, under threads and in asyncio.

The checks themselves are in `fencelock.testing.conformance`: they are a part of the package, and
third parties run them over engines of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import fencelock
from fencelock import engines
from fencelock.testing import conformance
from fencelock.testing.conformance import Check, Flavor
from tests.conformance.claims import more_time
from tests.conformance.variants import NOT_PROMISED, VARIANTS


def cases() -> Iterator[Any]:
    for check, variant, flavor in itertools.product(
        conformance.checks(), VARIANTS, conformance.FLAVORS
    ):
        if flavor in check.flavors and not NOT_PROMISED.get(variant, set()) & {*check.needs}:
            yield pytest.param(check, variant, flavor, id=f"{check}-{variant}-{flavor}")


@pytest.mark.parametrize(("check", "variant", "flavor"), list(cases()))
def test_the_engine_keeps_its_promise(
    check: Check, variant: str, flavor: Flavor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = more_time(check, variant, monkeypatch)

    def where() -> tuple[str, dict[str, Any]]:
        url, options = VARIANTS[variant](tmp_path)
        return url, {**options, **more}

    try:
        conformance.run(where, flavor, check)
    except conformance.NotApplicable as error:
        pytest.fail(f"{variant} promises less than before: {error}")


def test_no_engine_is_missing() -> None:
    assert {variant.partition(" ")[0] for variant in VARIANTS} == set(engines.TABLE)


def test_no_flavor_is_missing() -> None:
    assert set(conformance.FLAVORS) == set(get_args(Flavor)) == {"sync", "asyncio"}
    for flavor in conformance.FLAVORS:
        assert sum(flavor in check.flavors for check in conformance.checks()) > 50


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_not_promised_is_not_left_out_by_mistake(variant: str, tmp_path: Path) -> None:
    url, options = VARIANTS[variant](tmp_path)
    with fencelock.connect(url, **options) as client:
        for trait in NOT_PROMISED.get(variant, set()):
            assert getattr(client.traits, trait, False) is False
