"""Other versions and makes of a server keep the promises of the engine: a part of the checks.

What a server decides is checked: who is let in, in which order, with which fence. What our client
does alone, whichever server it speaks to, test_engines.py checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencelock.testing import conformance
from fencelock.testing.conformance import Check, Flavor
from tests.conformance.variants import NOT_PROMISED, VARIANTS, VERSIONS
from tests.servers.etcd import Etcd35
from tests.servers.postgresql import Postgresql18
from tests.servers.shared import shared
from tests.servers.valkey import Valkey

PARTS = {
    *("contract", "exclusion", "fences", "loss", "names", "queueing", "remembering", "sharing"),
    "waiting",
}
CHECKS = [one for one in conformance.checks() if one.body.__module__.rpartition(".")[2] in PARTS]


def cases() -> Iterator[Any]:
    for check, version, flavor in itertools.product(CHECKS, VERSIONS, conformance.FLAVORS):
        alike, _ = VERSIONS[version]
        if flavor in check.flavors and not NOT_PROMISED.get(alike, set()) & {*check.needs}:
            yield pytest.param(check, version, flavor, id=f"{check}-{version}-{flavor}")


@pytest.mark.parametrize(("check", "version", "flavor"), list(cases()))
def test_the_engine_keeps_its_promise(
    check: Check, version: str, flavor: Flavor, tmp_path: Path
) -> None:
    _, where = VERSIONS[version]
    try:
        conformance.run(lambda: where(tmp_path), flavor, check)
    except conformance.NotApplicable as error:
        pytest.fail(f"{version} promises less than the server before: {error}")


def test_every_part_of_the_checks_is_there() -> None:
    assert {one.body.__module__.rpartition(".")[2] for one in CHECKS} == PARTS
    assert {alike for alike, _ in VERSIONS.values()} <= {*VARIANTS}


def test_the_servers_have_the_versions_that_they_are_named_after() -> None:
    """Valkey 9 is the variant `valkey` of test_engines.py, with all checks."""
    assert shared(Etcd35).ctl("version").stdout.split()[-1].startswith("3.5")
    member = shared(Etcd35).ctl("endpoint", "status", "-w", "json").stdout
    assert '"version":"3.5' in member
    assert shared(Postgresql18).psql("SHOW server_version").startswith("18")
    assert shared(Valkey).info("server")["valkey_version"].startswith("9.")
