"""Programs in Go and Java are had for the tests once, whole and as pinned, or not at all.

Stand-ins for Go and Maven do what they are told; `make servers` runs the real ones.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.servers import go_programs, maven_programs
from tests.servers.dynamodb_local import DynamoDBLocal
from tests.servers.maven_programs import JavaProgram
from tests.servers.mysql_program import CannotFetch, cache
from tests.servers.server import Missing

MAVEN = """\
echo "$*" >>"$LOG"
for word; do
  case "$word" in -DoutputDirectory=*) printf given >"${word#-DoutputDirectory=}/a.jar" ;; esac
done
"""
GO = """\
echo "$*" >>"$LOG"
for word; do
  case "$word" in */) touch "$word/etcd" "$word/redsync" ;; esac
done
"""


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that come before the machine's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return folder


@pytest.fixture
def java_program(tmp_path: Path) -> JavaProgram:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "pom.xml").write_text("<project/>")
    (folder / "jars.sha256").write_text(f"{hashlib.sha256(b'given').hexdigest()}  a.jar\n")
    return JavaProgram(folder, "A program")


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}")
    (folder / name).chmod(0o755)


def test_java_is_fetched_once(bin: Path, tmp_path: Path, java_program: JavaProgram) -> None:
    put(bin, "mvn", MAVEN)
    put(bin, "javac", "")
    with pytest.raises(Missing, match="A program is not there: install a JDK"):
        java_program.classpath()
    java_program.fetch()
    java_program.fetch()
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert (java_program.home / "a.jar").read_text() == "given"
    assert java_program.classpath() == f"{java_program.home}:{java_program.home}/*"


def test_what_has_another_checksum_is_refused(bin: Path, java_program: JavaProgram) -> None:
    put(bin, "mvn", MAVEN.replace("given", "forged"))
    put(bin, "javac", "")
    with pytest.raises(CannotFetch, match=r"something else than jars\.sha256 names: a\.jar"):
        java_program.fetch()
    assert list(cache().glob("*java-*/")) == []


def test_another_list_is_another_program(bin: Path, java_program: JavaProgram) -> None:
    before = java_program.home
    (java_program.folder / "pom.xml").write_text("<project></project>")
    assert java_program.home != before


def test_go_builds_once_and_whole(bin: Path, tmp_path: Path) -> None:
    put(bin, "go", "echo 'no such module' >&2; exit 1")
    with pytest.raises(CannotFetch, match="no such module"):
        go_programs.build()
    assert go_programs.find("etcd") is None
    put(bin, "go", GO)
    go_programs.build()
    go_programs.build()
    said = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert said == ["list", "build"]
    assert go_programs.find("etcd") is not None
    assert list(cache().glob("new-*")) == []


def test_dynamodb_local_is_for_those_who_say_that_they_may(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FENCELOCK_DYNAMODB_LOCAL", raising=False)
    assert maven_programs.DYNAMODB_LOCAL not in maven_programs.wanted()
    with pytest.raises(Missing, match="FENCELOCK_DYNAMODB_LOCAL=licensed"):
        DynamoDBLocal(tmp_path).command()
    monkeypatch.setenv("FENCELOCK_DYNAMODB_LOCAL", "licensed")
    assert maven_programs.DYNAMODB_LOCAL in maven_programs.wanted()
