"""A test for each row of the table of exit codes, and the table stands where it should."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from fencelock.cli import codes
from fencelock.cli.main import VERBS
from tests.cli.program import COMMAND, Program, end, line
from tests.cli.typist import Typist

DENYING = """
from fencelock.engines.memory import MemoryEngine
from fencelock.errors import Denied

class Denying(MemoryEngine):
    schemes = ("denying",)
    async def open(self):
        raise Denied("the server refused the user")
"""
UNABLE = """
from fencelock.engine import Engine
from fencelock.engines.memory import MemoryEngine

class Unable(MemoryEngine):
    schemes = ("unable",)
    scan = Engine.scan
"""


def install(program: Program, scheme: str, code: str) -> None:
    """Make a third party's engine known to the program."""
    info = program.folder / f"{scheme}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {scheme}\nVersion: 1\n")
    entry = f"[fencelock.engines]\n{scheme} = {scheme}:{scheme.title()}\n"
    (info / "entry_points.txt").write_text(entry)
    (program.folder / f"{scheme}.py").write_text(code)
    program.add_to_path(program.folder)


def own_code(program: Program) -> None:
    assert program.run("run", "a", "--", "true").returncode == 0
    assert program.run("run", "a", "-c", "exit 3").returncode == 3
    assert program.run("run", "a", "-c", "exit 255").returncode == 255


def declined(program: Program) -> None:
    with program.client() as client, client.lock("a") as lease:
        typist = Typist(program, [*COMMAND, "revoke", "a", "--reason", "over"])
        typist.see("Take it away?")
        typist.type("n\n")
        typist.see("nothing was revoked", "[ended with 1]")
        typist.close()
        lease.check()


def unreachable(program: Program) -> None:
    program.run("run", "a", "--", "true")
    with sqlite3.connect(program.file, isolation_level=None) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        ran = program.run(
            "run", "a", "--url", f"{program.url}?request_timeout=0.1", "--", "echo", "ran"
        )
        blocker.execute("ROLLBACK")
    blocker.close()
    assert (ran.returncode, ran.stdout) == (69, "")
    assert ran.stderr.count("\n") == 1


def not_acquired(program: Program) -> None:
    with program.client() as client, client.lock("a"):
        ran = program.run("run", "a", "-n", "--", "echo", "ran")
        assert (ran.returncode, ran.stdout) == (75, "")
        assert "fencelock show a" in ran.stderr
        assert ran.stderr.count("\n") == 1
        assert program.run("run", "a", "-w", "50ms", "--", "true").returncode == 75
        assert program.run("run", "a", "-n", "-E", "9", "--", "true").returncode == 9
        skipped = program.run("run", "a", "-n", "--skip-ok", "--", "false")
        assert (skipped.returncode, skipped.stdout, skipped.stderr) == (0, "", "")


def denied(program: Program) -> None:
    install(program, "denying", DENYING)
    ran = program.run("run", "a", "--url", "denying://h", "--", "echo", "ran")
    assert (ran.returncode, ran.stdout) == (77, "")
    assert ran.stderr == "fencelock: the server refused the user\n"


def misconfigured(program: Program) -> None:
    for words in (
        ["a", "--url", "nonsense"],
        ["a", "--url", "nosuch://host"],
        ["a", "--url", "sqlite:////nowhere/at/all.db"],
        ["a\nb"],
        ["a", "--ttl", "1ms"],
        ["a", "--ttl", "1s", "--grace", "1s"],
    ):
        ran = program.run("run", *words, "--", "echo", "ran")
        assert (ran.returncode, ran.stdout) == (78, ""), words
        assert ran.stderr.count("\n") == 1, ran.stderr
    install(program, "unable", UNABLE)
    ran = program.run("ls", "--url", "unable://h")
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "cannot list locks" in ran.stderr


def lost(program: Program) -> None:
    process = program.start("run", "a", "--ttl", "4s", "-c", "echo up; exec sleep 60")
    assert line(process) == "up"
    assert program.run("revoke", "a", "--reason", "maintenance", "--yes").returncode == 0
    ran = end(process)
    assert ran.returncode == 79
    assert ran.stderr.count("\n") == 1, "a loss is said once"
    assert "maintenance" in ran.stderr
    assert "sent TERM" in ran.stderr


def timed_out(program: Program) -> None:
    assert program.run("run", "a", "--max-runtime", "50ms", "--", "sleep", "60").returncode == 124
    stubborn = "trap '' TERM; while :; do sleep 0.01; done"
    words = ("run", "a", "--max-runtime", "50ms", "--grace", "100ms", "-c", stubborn)
    assert program.run(*words).returncode == 124


def failed(program: Program) -> None:
    for words in (
        ["a"],
        ["a", "echo", "ran"],
        ["a", "--no-such-option", "--", "echo", "ran"],
        ["a", "-w", "soon", "--", "echo", "ran"],
        ["a", "-n", "-w", "1s", "--", "echo", "ran"],
        ["a", "-E", "256", "--", "echo", "ran"],
        ["a", "--on-lost", "pray", "--", "echo", "ran"],
        ["a", "--meta", "pair", "--", "echo", "ran"],
        ["a", "--status-fd", "77", "--", "echo", "ran"],
        ["a", "-c", "echo ran", "--", "echo", "ran"],
    ):
        ran = program.run("run", *words)
        assert (ran.returncode, ran.stdout) == (125, ""), words
        assert ran.stderr.count("\n") == 1, ran.stderr
    assert program.run("dance").returncode == 125
    assert "after --" in program.run("run", "a", "true").stderr


def not_executable(program: Program) -> None:
    (program.folder / "plain").write_text("text")
    ran = program.run("run", "a", "--", "./plain")
    assert ran.returncode == 126
    assert program.run("run", "a", "--", ".").returncode == 126


def not_found(program: Program) -> None:
    ran = program.run("run", "a", "--", "no-such-program")
    assert ran.returncode == 127
    assert "no-such-program" in ran.stderr


def signalled(program: Program) -> None:
    assert program.run("run", "a", "-c", "kill -TERM $$").returncode == 143
    assert program.run("run", "a", "-c", "kill -KILL $$").returncode == 137
    with program.client() as client, client.lock("a"):
        process = program.start("run", "a", "--", "echo", "ran")
        program.queue("a", 1)
        process.send_signal(signal.SIGTERM)
        ran = end(process)
        assert (ran.returncode, ran.stdout) == (143, "")
        assert not client.inspect("a").waiters


ROWS: dict[str, Callable[[Program], None]] = {
    "0-255": own_code,
    "1": declined,
    "69": unreachable,
    "75": not_acquired,
    "77": denied,
    "78": misconfigured,
    "79": lost,
    "124": timed_out,
    "125": failed,
    "126": not_executable,
    "127": not_found,
    "128+N": signalled,
}


@pytest.mark.parametrize("code", ROWS)
def test_a_row_of_the_table_is_true(code: str, program: Program) -> None:
    ROWS[code](program)


def test_every_row_has_its_test() -> None:
    """But for the one of a broken promise, which test_torture.py has."""
    assert list(ROWS) == [code for code, _ in codes.TABLE if code != str(codes.BROKEN)]


def test_the_table_stands_in_the_help(program: Program) -> None:
    for words in (["--help"], ["run", "--help"], []):
        ran = program.run(*words)
        assert ran.returncode == 0
        assert codes.text() in ran.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, program: Program) -> None:
    ran = program.run(verb, "--help")
    assert ran.returncode == 0
    assert "--json" in ran.stdout
    assert ran.stderr == ""


def test_the_table_stands_in_the_documents() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = re.findall(r"(?m)^\| `?([\d+N-]+)`? \| (.+) \|$", (docs / "cli.md").read_text())
    assert tuple(page) == codes.TABLE
    manual = (docs / "man" / "fencelock.1").read_text().replace("\\-", "-").replace("\\(aq", "'")
    for code, meaning in codes.TABLE:
        assert f".B {code}\n{meaning}\n" in manual
    assert all(f".B fencelock {verb}\n" in manual for verb in VERBS)


@pytest.mark.parametrize(
    ("words", "outcome", "code"),
    [
        (["-c", "exit 5"], "ran", 5),
        (["--max-runtime", "50ms", "--", "sleep", "60"], "timed_out", 124),
        (["--", "no-such-program"], "failed", 127),
        (["--url", "nonsense", "--", "true"], "failed", 78),
        (["-w", "soon", "--", "true"], "failed", 125),
    ],
)
def test_the_status_tells_the_end(
    words: list[str], outcome: str, code: int, program: Program
) -> None:
    with open(program.folder / "status", "w+") as file:
        number = file.fileno()
        ran = program.run("run", "a", "--status-fd", str(number), *words, pass_fds=[number])
        file.seek(0)
        status = json.load(file)
    assert ran.returncode == code
    assert (status["schema"], status["name"]) == (1, "a")
    assert (status["outcome"], status["exit_code"]) == (outcome, code)
    facts = ("wait_s", "held_s", "fence", "renewals", "lost_reason", "child_code", "error")
    assert all(fact in status for fact in facts)
    assert (status["error"] is None) == (outcome != "failed")


def test_with_json_the_status_goes_to_stderr(program: Program) -> None:
    with program.client() as client, client.lock("a"):
        ran = program.run("run", "a", "-n", "--json", "--", "true")
    status = json.loads(ran.stderr)
    assert (status["outcome"], status["exit_code"]) == ("not_acquired", 75)


def test_v_shows_the_traceback_and_nothing_else_does(program: Program) -> None:
    assert "Traceback" not in program.run("run", "a", "--url", "x", "--", "true").stderr
    assert "Traceback" in program.run("run", "a", "--url", "x", "-v", "--", "true").stderr
    assert "Traceback" not in program.run("run", "a", "--url", "x", "--", "true", "-v").stderr
