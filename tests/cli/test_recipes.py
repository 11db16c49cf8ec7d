"""The recipes of the page work, and its options exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from fencelock.cli.main import VERBS, parser_of

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SCRIPTS = re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE)
OF_OTHERS = {"--all"}


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_shell_can_read_it(script: str) -> None:
    ran = subprocess.run(["sh", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_option_on_the_page_exists() -> None:
    known = {
        name for verb in VERBS for o in parser_of(verb)[0].options() for name in o.option_strings
    }
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE))
    assert used - known - OF_OTHERS == set()


def test_every_verb_stands_on_the_page() -> None:
    assert [verb for verb in VERBS if f"`{verb}" not in PAGE and f"lock {verb}`" not in PAGE] == []


def test_the_guard_in_a_shell_script_refuses_an_old_fence(tmp_path: Path) -> None:
    (guard,) = [script for script in SCRIPTS if "guarded()" in script]
    (tmp_path / "new-prices.csv").write_text("new")

    def write(fence: int) -> int:
        return subprocess.run(
            ["sh", "-c", guard],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "FENCELOCK_FENCE": str(fence)},
            stderr=subprocess.DEVNULL,
            check=False,
        ).returncode

    assert [write(fence) for fence in (10, 10, 12, 11, 12)] == [0, 0, 0, 79, 0]
    assert (tmp_path / "prices.csv").read_text() == "new"
    assert (tmp_path / "prices.csv.fence").read_text().split() == ["10", "12"]
