"""What the service is built on: nothing older than the cure of a known vulnerability."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

FIXED = {
    "uvicorn": "0.11.7",  # CVE-2020-7694 and CVE-2020-7695: escapes in the log, split answers
    "httptools": "0.6.3",  # with llhttp 9: CVE-2022-35256, CVE-2023-30589, smuggling by bare CR
    "h11": "0.16.0",  # CVE-2025-43859: lenient ends of chunks
}
"""The first version without the vulnerability."""


def required() -> list[Requirement]:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    return [Requirement(one) for name in ("service", "http") for one in extras.get(name, ())]


@pytest.mark.parametrize("requirement", required(), ids=lambda one: one.name)
def test_a_package_has_a_lower_bound_past_its_vulnerabilities(requirement: Requirement) -> None:
    lowest = [Version(one.version) for one in requirement.specifier if one.operator in (">=", "==")]
    assert lowest, f"{requirement} has no lower bound"
    assert max(lowest) >= Version(FIXED.get(requirement.name, "0"))
    assert Version(version(requirement.name)) in requirement.specifier


def test_the_service_requires_something() -> None:
    assert {"uvicorn", "httptools", "msgspec"} <= {one.name for one in required()}
