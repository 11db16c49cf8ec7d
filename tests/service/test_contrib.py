"""What the documents and contrib/ give to be used: run where it can be, else read by its tools."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.servers.server import Missing
from tests.service.nodes import Node

ROOT = Path(__file__).parents[2]
CONTRIB = ROOT / "contrib"


def test_the_commands_of_the_page_about_curl_work(program: Program) -> None:
    """All blocks of the page are one script, and its answers are those that the text tells of."""
    if shutil.which("curl") is None:
        raise Missing("curl is not installed: sudo apt-get install curl")
    node = Node(program, "--insecure", "--drain", "0s")
    page = (ROOT / "docs" / "curl.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 7
    ran = subprocess.run(
        ["sh", "-eu", "-c", "".join(blocks)],
        env={**os.environ, "SERVICE": node.url},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    answers = [json.loads(line) for line in re.findall(r"\{.*?\}(?=\{|\n|$)", ran.stdout + "\n")]
    lease, renewed, state, _, busy, released, _, revoked = answers
    assert (lease["name"], lease["ttl"]) == ("seat:1A", 60)
    assert renewed["leases"] == [{"held": True, "ttl": 60}]
    assert [one["fence"] for one in state["holders"]] == [lease["fence"]]
    assert busy["type"] == "urn:fencelock:problem:busy"
    assert released["leases"] == [{"released": True}]
    assert revoked["revoked"] is True


def test_the_unit_is_understood_by_systemd() -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        raise Missing("systemd-analyze is not installed: sudo apt-get install systemd")
    unit = CONTRIB / "systemd" / "fencelock.service"
    ran = subprocess.run(
        [program, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=100
    )
    wrong = [line for line in ran.stderr.splitlines() if "fencelock" in line]
    assert wrong == []
    text = unit.read_text()
    assert "Type=notify" in text
    assert "EnvironmentFile=" in text


def test_the_compose_file_and_the_dockerfile_can_be_read() -> None:
    """No engine of containers is needed: the files are read, and name only what is there."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")
    compose = yaml.safe_load((CONTRIB / "docker" / "compose.yaml").read_text())
    assert {*compose["services"]} == {"node-a", "node-b", "redis"}
    for name in ("node-a", "node-b"):
        node = compose["services"][name]
        assert (CONTRIB / "docker" / node["build"]["context"]).resolve() == ROOT
        assert (ROOT / node["build"]["dockerfile"]).is_file()
        assert "FENCELOCK_URL" in node["environment"]
        assert all(port.startswith("127.0.0.1:") for port in node["ports"])
    text = (CONTRIB / "docker" / "Dockerfile").read_text()
    joined = re.sub(r"\\\n", " ", text)
    known = {
        *("FROM", "COPY", "RUN", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL"),
        *("HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    assert {line.split()[0] for line in lines} <= known
    for line in lines:
        word, _, rest = line.partition(" ")
        if word in ("ENTRYPOINT", "CMD"):
            assert json.loads(rest)
        if word == "COPY" and "--from" not in rest:
            assert all((ROOT / source).exists() for source in rest.split()[:-1])
    assert "USER 10001" in text


def test_the_command_of_the_recipes_is_accepted(program: Program) -> None:
    """Their words are words of ``fencelock serve``: it complains of the file, not of them."""
    unit = (CONTRIB / "systemd" / "fencelock.service").read_text()
    found = re.search(r"^ExecStart=/usr/bin/env fencelock (.*)$", unit, re.MULTILINE)
    assert found
    for words in (
        found[1].split(),
        ["serve", "--host", "0.0.0.0", "--config", "/etc/fencelock/fencelock.toml"],
    ):
        ran = program.run(*words)
        assert (ran.returncode, "cannot be read" in ran.stderr) == (78, True), ran.stderr
