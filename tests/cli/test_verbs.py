"""The other verbs: what they do, and what they say to programs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fencelock.cli.main import VERBS
from tests.cli.program import COMMAND, Program, end, line

SHARE = {"kind", "role", "slot", "limit", "election"}
HOLDING = {"name", "fence", "ttl_s", "age_s", "remaining_s", "meta"} | SHARE


def test_ls_lists_what_is_held_under_a_prefix(program: Program) -> None:
    with program.client() as client, client.lock("b:1"), client.lock("b:2"), client.lock("a"):
        facts = program.json("ls", "b:")
        assert [lock["name"] for lock in facts["locks"]] == ["b:1", "b:2"]
        assert all(set(lock) == HOLDING for lock in facts["locks"])
        assert program.run("ls", "-q").stdout.split() == ["a", "b:1", "b:2"]
        head, *rows = program.run("ls", "b:").stdout.splitlines()
        assert head.split() == ["NAME", "AS", "HOLDER", "FOR", "LEFT", "FENCE"]
        assert [row.split()[0] for row in rows] == ["b:1", "b:2"]
    ran = program.run("ls")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert ran.stderr == f"fencelock: no lock is held at {program.url}\n"
    with program.client() as client, client.lock("a"):
        assert "no lock whose name begins with 'b:' is held" in program.run("ls", "b:").stderr


def test_show_tells_holder_and_queue(program: Program) -> None:
    with program.client() as client, client.lock("a", meta={"why": "test"}) as lease:
        process = program.start("run", "a", "--", "true")
        program.queue("a", 1)
        facts = program.json("show", "a")
        assert (facts["name"], facts["held"]) == ("a", True)
        assert facts["holders"][0]["fence"] == lease.fence
        assert set(facts["holders"][0]) == HOLDING
        assert set(facts["waiters"][0]) == {"kind", "role", "election", "age_s", "meta"}
        assert facts["waiters"][0]["meta"]["pid"] == process.pid
        words = program.run("show", "a").stdout
        assert f"{os.getpid()}" in words
        assert "why=test" in words
        assert f"{process.pid} (true)" in words
    assert end(process).returncode == 0
    assert program.json("show", "a")["held"] is False
    assert program.run("show", "a").stdout == "a is free\n"


def test_what_a_command_was_given_is_not_shown_to_others(program: Program) -> None:
    process = program.start("run", "a", "-c", "echo up; read x # --password=hunter2")
    assert line(process) == "up"
    assert "hunter2" not in json.dumps(program.json("show", "a"))
    end(process)


def test_watch_says_each_change_on_a_line(program: Program) -> None:
    process = program.start("watch", "s", "--interval", "20ms")
    with program.client() as client:
        with client.lock("seat") as lease, client.lock("other"):
            held = json.loads(line(process))
        freed = json.loads(line(process))
    process.terminate()
    assert end(process).returncode == 143
    assert (held["schema"], held["event"], held["name"]) == (1, "held", "seat")
    assert (freed["schema"], freed["event"], freed["fence"]) == (1, "freed", lease.fence)
    assert set(held) == HOLDING | {"schema", "event"}


def test_watch_ends_with_its_reader(program: Program) -> None:
    with program.client() as client, client.lock("a"):
        process = program.start("watch", "--interval", "10ms")
        line(process)
        assert process.stdout is not None
        process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""


# Holding, revoking, examining


def test_hold_lasts_until_stdin_closes(program: Program) -> None:
    process = program.start("hold", "a", "--ttl", "30s")
    word, name, fence = line(process).split()
    assert (word, name) == ("held", "a")
    with program.client() as client:
        assert client.holders("a")[0].fence == int(fence)
        assert end(process).returncode == 0
        assert client.holders("a") == []
    facts = [json.loads(text) for text in program.run("hold", "a", "--json").stdout.splitlines()]
    assert [(f["schema"], f["event"]) for f in facts] == [(1, "held"), (1, "released")]


def test_hold_ends_when_the_lease_is_lost_or_a_signal_comes(program: Program) -> None:
    process = program.start("hold", "a", "--ttl", "4s")
    line(process)
    assert program.run("revoke", "a", "--reason", "over", "--yes").returncode == 0
    assert process.wait(30) == 79
    assert "over" in end(process).stderr
    process = program.start("hold", "a", "--ttl", "30s")
    line(process)
    process.terminate()
    assert process.wait(30) == 143
    assert program.run("run", "a", "-n", "--", "true").returncode == 0


def test_revoke_raises_the_fence_and_needs_yes_in_a_script(program: Program) -> None:
    with program.client() as client:
        lease = client.lock("a", renew=False).acquire()
        refused = program.run("revoke", "a", "--reason", "over")
        assert refused.returncode == 125
        assert "--yes" in refused.stderr
        assert client.holders("a")
        facts = program.json("revoke", "a", "--reason", "over", "--yes")
        assert (facts["name"], facts["revoked"]) == ("a", True)
        assert facts["holders"][0]["fence"] == lease.fence
        with client.lock("a") as following:
            assert following.fence > lease.fence
        lease.release()
    assert program.json("revoke", "a", "--reason", "over", "--yes")["revoked"] is False
    assert program.run("revoke", "a", "--yes").returncode == 125


def test_doctor_says_yes_with_times_and_findings(program: Program) -> None:
    facts = program.json("doctor", program.url)
    assert facts["can_lock"] is True
    assert set(facts["times_s"]) == {"connect", "acquire", "renew", "release"}
    topics = {finding["topic"]: finding["level"] for finding in facts["findings"]}
    wanted = {"promises", "fence", "file system", "room", "rights", "journal", "push", "SQLite"}
    assert wanted <= set(topics)
    assert topics["fence"] == topics["journal"] == topics["rights"] == "ok"
    assert "can I lock" in program.run("doctor").stdout
    assert program.json("ls")["locks"] == []


def test_doctor_advises(program: Program) -> None:
    program.run("ls")
    program.file.chmod(0o666)
    found = {f["topic"]: f for f in program.json("doctor")["findings"]}
    assert found["rights"]["level"] == "warning"
    assert "chmod" in found["rights"]["advice"]
    found = {f["topic"]: f for f in program.json("doctor", "memory://")["findings"]}
    assert found["scope"]["level"] == "warning"
    assert program.run("doctor", "nosuch://").returncode == 78


def test_bench_measures_pairs_and_hand_offs(program: Program) -> None:
    facts = program.json("bench", program.url, "--count", "20", "--handoffs", "3")
    for figures, count in ((facts["pair_us"], 20), (facts["handoff_us"], 3)):
        assert figures["count"] == count
        assert 0 < figures["median"] <= figures["p99"]
    assert program.json("bench", "memory://", "--count", "20")["handoff_us"] is None
    assert "median" in program.run("bench", "--count", "20", "--handoffs", "2").stdout


def test_demo_shows_what_it_set_out_to(program: Program) -> None:
    facts = program.json("demo")
    assert facts["shown"] is True
    assert facts["sold_twice"] == {}


def test_lab_lists_scenarios_and_plays_them(program: Program) -> None:
    names = [one["name"] for one in program.json("lab", "ls")["scenarios"]]
    assert "ghost-writer" in names
    listed = program.run("lab", "ls").stdout
    assert [name for name in names if name not in listed] == []
    trace = program.json("lab", "play", "ghost-writer", "--set", "fence=no guard")
    assert trace["outcome"]["register"] == "Alice"
    ran = program.run("lab", "play", "ghost-writer")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "refused, fence 33 is below 34" in ran.stdout


def test_lab_plays_a_file_and_says_where_it_is_wrong(program: Program, tmp_path: Path) -> None:
    script = ["acquire seat ttl 5", "write Alice", "release"]
    document: dict[str, object] = {
        "v": 1,
        "title": "Mine",
        "until": 2,
        "engine": {"kind": "store"},
        "actors": {"A": {"script": script}},
        "expect": {"played": {"register": "Bob"}},
    }
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(document))
    ran = program.run("lab", "play", str(file))
    assert ran.returncode == 80
    assert "register: 'Bob' was expected, and it is 'Alice'" in ran.stderr
    file.write_text(json.dumps(document | {"actors": {"A": {"script": ["wirte Alice"]}}}))
    ran = program.run("lab", "play", str(file))
    assert ran.returncode == 78
    assert "actors.A.script line 1: 'wirte Alice' is not a statement" in ran.stderr


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["play"], "play needs a scenario", 125),
        (["ls", "ghost-writer"], "ls takes neither", 125),
        (["play", "no-such"], "'no-such' is neither a file nor a scenario", 78),
        (["play", "ghost-writer", "--set", "raw=x"], "there is no switch 'raw'", 78),
        (["play", "ghost-writer", "--set", "fence"], "--set takes SWITCH=CHOICE", 125),
        (["play", __file__], "this is not JSON", 78),
    ],
)
def test_lab_says_in_one_line_what_is_wrong(
    words: list[str], said: str, code: int, program: Program
) -> None:
    ran = program.run("lab", *words)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize("engine", ["postgresql", "mysql"])
def test_schema_prints_what_a_migration_needs(engine: str, program: Program) -> None:
    ran = program.run("schema", engine, "--table", "mine")
    assert ran.returncode == 0
    assert re.search(r"CREATE TABLE IF NOT EXISTS (\"public\"\.)?mine_locks", ran.stdout)
    assert program.json("schema", engine, "--table", "mine")["sql"].strip() == ran.stdout.strip()
    assert program.run("schema", engine, "--table", "x; DROP TABLE y").returncode != 0


def test_schema_names_a_schema_of_postgresql_only(program: Program) -> None:
    ran = program.run("schema", "postgresql", "--schema", "mine")
    assert 'CREATE TABLE IF NOT EXISTS "mine".fencelock_locks' in ran.stdout
    assert program.run("schema", "mysql", "--schema", "mine").returncode != 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_can_be_read_by_its_shell(shell: str, program: Program) -> None:
    ran = program.run("completion", shell)
    assert ran.returncode == 0
    assert program.json("completion", shell)["script"].strip() == ran.stdout.strip()
    assert all(verb in ran.stdout for verb in VERBS)
    assert "max-runtime" in ran.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    parsed = subprocess.run([shell, "-n"], input=ran.stdout, text=True, capture_output=True)
    assert (parsed.returncode, parsed.stderr) == (0, "")


def test_bash_completes_verbs_options_and_names(program: Program) -> None:
    script = program.run("completion", "bash").stdout
    (program.folder / "fencelock").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (program.folder / "fencelock").chmod(0o755)
    path = f"{program.folder}:{os.environ['PATH']}"

    def complete(*words: str) -> list[str]:
        quoted = " ".join(f"'{word}'" for word in words)
        asked = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _fencelock"
        ran = subprocess.run(
            ["bash", "-c", f'{script}\n{asked}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'],
            env={**program.environment, "PATH": path},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return ran.stdout.split()

    with program.client() as client, client.lock("seat:1"), client.lock("other"):
        assert complete("fencelock", "re") == ["renew", "release", "revoke"]
        assert complete("fencelock", "run", "--max") == ["--max-runtime"]
        assert complete("fencelock", "show", "se") == ["seat:1"]
        assert complete("fencelock", "completion", "z") == ["zsh"]


def test_every_verb_answers_in_json(program: Program) -> None:
    """Each of them is asked somewhere in these tests; this holds the list."""
    text = "".join(file.read_text() for file in Path(__file__).parent.glob("test_*.py"))
    asked = {
        verb for verb in VERBS if f'json("{verb}"' in text or f'"{verb}", "a", "--json"' in text
    }
    assert asked | {"run", "serve", "watch"} == set(VERBS)


def test_a_token_is_printed_with_its_digest(program: Program) -> None:
    facts = program.json("token", "billing")
    digest = hashlib.sha256(facts["token"].encode()).hexdigest()
    assert facts["digest"] == f"sha256:{digest}"


ERRORS = {
    "ls": ["ls"],
    "doctor": ["doctor"],
    "acquire": ["acquire", "a"],
    "hold": ["hold", "a"],
    "watch": ["watch"],
    "revoke": ["revoke", "a", "--reason", "over", "--yes"],
    "bench": ["bench"],
}


@pytest.mark.parametrize("verb", ERRORS)
def test_with_json_an_error_is_an_object_too(verb: str, program: Program) -> None:
    ran = program.run(*ERRORS[verb], "--json", "--url", "redis://127.0.0.1:1/0")
    assert ran.returncode == 69
    facts = json.loads(ran.stdout)
    assert (facts["schema"], facts["exit_code"]) == (1, 69)
    error = facts["error"]
    assert (error["type"], error["may_have_happened"]) == ("Unavailable", False)
    assert f"fencelock: {error['message']}\n" == ran.stderr


def test_with_json_a_busy_lock_and_a_wrong_line_are_objects_too(program: Program) -> None:
    with program.client() as client, client.lock("a"):
        for verb in ("acquire", "hold"):
            facts = json.loads(program.run(verb, "a", "-n", "-E", "9", "--json").stdout)
            assert (facts["error"]["type"], facts["exit_code"]) == ("NotAcquired", 9)
    for words in (["ls", "--nonsense"], ["watch", "--interval", "0"]):
        facts = json.loads(program.run(*words, "--json").stdout)
        assert (facts["error"]["type"], facts["exit_code"]) == ("UsageError", 125)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["watch", "--interval", "0"], "--interval is at least 10ms and at most 366d, not 0"),
        (["doctor", "--url", "memory://a", "memory://b"], "two engines are named"),
        (["bench", "--url", "memory://a", "memory://b"], "two engines are named"),
        (["torture", "--url", "memory://a", "memory://b"], "two engines are named"),
        (["demo", "--url", "memory://"], "unrecognized arguments: --url"),
        (["schema", "mysql", "--url", "memory://"], "unrecognized arguments: --url"),
        (["completion", "bash", "--url", "memory://"], "unrecognized arguments: --url"),
        (["run", "a", "--timeout", "1s", "--", "x"], "--timeout 1s: did you mean --wait? (see"),
        (["run", "a", "--maxruntime=1s"], "did you mean --max-runtime? (write the command after"),
        (["aquire", "a"], "there is no verb 'aquire': did you mean acquire?"),
        (["rnu"], "there is no verb 'rnu': did you mean run?"),
        (["xyzzy"], "there is no verb 'xyzzy'; the verbs are run, elect"),
    ],
)
def test_a_line_that_makes_no_sense_is_refused(
    words: list[str], message: str, program: Program
) -> None:
    ran = program.run(*words)
    assert (ran.returncode, ran.stdout) == (125, "")
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_a_terminal_of_80_columns(verb: str, program: Program) -> None:
    shown = program.run(*filter(None, [verb]), "--help").stdout.splitlines()
    assert max(map(len, shown)) < 80


def test_watch_refuses_an_interval_that_no_clock_can_wait(program: Program) -> None:
    for interval in ("99999999999999999999s", "367d", "1ms"):
        ran = program.run("watch", "--count", "2", "--interval", interval)
        assert ran.returncode == 125
        assert "--interval is at least 10ms and at most 366d" in ran.stderr
