"""The other verbs: what they do, and what they say to programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencelock.cli.main import VERBS
from tests.cli.program import COMMAND, Program, end, line

HOLDING = {"name", "fence", "ttl_s", "age_s", "remaining_s", "meta"}


def test_ls_lists_what_is_held_under_a_prefix(program: Program) -> None:
    with program.client() as client, client.lock("b:1"), client.lock("b:2"), client.lock("a"):
        facts = program.json("ls", "b:")
        assert [lock["name"] for lock in facts["locks"]] == ["b:1", "b:2"]
        assert all(set(lock) == HOLDING for lock in facts["locks"])
        assert program.run("ls", "-q").stdout.split() == ["a", "b:1", "b:2"]
        head, *rows = program.run("ls", "b:").stdout.splitlines()
        assert head.split() == ["NAME", "HOLDER", "FOR", "LEFT", "FENCE"]
        assert [row.split()[0] for row in rows] == ["b:1", "b:2"]
    ran = program.run("ls")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "nothing is held" in ran.stderr


def test_show_tells_holder_and_queue(program: Program) -> None:
    with program.client() as client, client.lock("a", meta={"why": "test"}) as lease:
        process = program.start("run", "a", "--", "true")
        program.queue("a", 1)
        facts = program.json("show", "a")
        assert (facts["name"], facts["held"]) == ("a", True)
        assert facts["holders"][0]["fence"] == lease.fence
        assert set(facts["holders"][0]) == HOLDING
        assert set(facts["waiters"][0]) == {"age_s", "meta"}
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


# Leases of scripts


def test_a_script_carries_its_lease(program: Program) -> None:
    script = f"""
        fencelock() {{ {sys.executable} -W error -m fencelock "$@"; }}
        eval "$(fencelock acquire 'the deploy' --ttl 10m --meta why=release --shell)" || exit
        echo "$FENCELOCK_NAME $FENCELOCK_FENCE $FENCELOCK_TTL"
        fencelock run 'the deploy' -n -- true; echo "taken: $?"
        fencelock renew --ttl 20m && fencelock ls -q && fencelock release && fencelock ls -q
        fencelock release; echo "again: $?"
        fencelock renew; echo "renewed: $?"
    """
    ran = subprocess.run(
        ["sh", "-c", script],
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    first, *rest = ran.stdout.splitlines()
    name, fence, ttl = first.rsplit(" ", 2)
    assert (name, ttl) == ("the deploy", "600")
    assert int(fence) > 0
    assert rest == ["taken: 75", "the deploy", "again: 79", "renewed: 79"]
    assert "Traceback" not in ran.stderr


def test_eval_does_not_swallow_a_failure(program: Program) -> None:
    with program.client() as client, client.lock("a"):
        for words in ("a -n --shell", "a --shell --no-such-option", "a --shell --url nonsense"):
            line_ = f'eval "$({" ".join(COMMAND)} acquire {words})"; echo $?'
            ran = subprocess.run(
                ["sh", "-c", line_],
                env=program.environment,
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert ran.stdout.strip() in ("75", "125", "78")


def test_a_lease_is_given_as_an_argument_or_by_the_environment(program: Program) -> None:
    lease = program.run("acquire", "a", "--ttl", "1m").stdout.strip()
    facts = program.json("renew", lease, "--ttl", "2m")
    assert (facts["name"], facts["ttl_s"]) == ("a", 120)
    assert 0 < facts["remaining_s"] <= 120
    assert program.json("show", "a")["holders"][0]["remaining_s"] > 60
    released = program.json("release", env={"FENCELOCK_LEASE": lease})
    assert (released["name"], released["released"]) == ("a", True)
    assert released["fence"] == facts["fence"]
    assert program.run("release", "fl1.rubbish").returncode == 125
    assert program.run("release", lease[:-9]).returncode == 125
    assert program.run("renew").returncode == 125


def test_acquire_tells_programs_all_they_need(program: Program) -> None:
    facts = program.json("acquire", "a", "--ttl", "1m")
    assert set(facts) == {"schema", "url", "name", "fence", "ttl_s", "lease"}
    assert program.run("acquire", "a", "-n", "-E", "9").returncode == 9
    assert program.json("show", "a")["holders"][0]["meta"]["pid"] == os.getpid()
    assert program.run("release", facts["lease"]).returncode == 0


def test_another_holder_is_not_released(program: Program) -> None:
    lease = program.run("acquire", "a", "--ttl", "1m").stdout.strip()
    assert program.run("revoke", "a", "--reason", "over", "--yes").returncode == 0
    with program.client() as client, client.lock("a"):
        assert program.run("release", lease).returncode == 79
        ran = program.run("renew", lease)
        assert ran.returncode == 79
        assert "over" in ran.stderr
        assert ran.stderr.count("\n") == 1
        assert client.holders("a")


# Holding, revoking, examining


def test_hold_lasts_until_stdin_closes(program: Program) -> None:
    process = program.start("hold", "a", "--ttl", "1s")
    word, name, fence = line(process).split()
    assert (word, name) == ("held", "a")
    with program.client() as client:
        assert client.holders("a")[0].fence == int(fence)
        assert end(process).returncode == 0
        assert client.holders("a") == []
    facts = [json.loads(text) for text in program.run("hold", "a", "--json").stdout.splitlines()]
    assert [(f["schema"], f["event"]) for f in facts] == [(1, "held"), (1, "released")]


def test_hold_ends_when_the_lease_is_lost_or_a_signal_comes(program: Program) -> None:
    process = program.start("hold", "a", "--ttl", "1s")
    line(process)
    assert program.run("revoke", "a", "--reason", "over", "--yes").returncode == 0
    assert process.wait(30) == 79
    assert "over" in end(process).stderr
    process = program.start("hold", "a", "--ttl", "1s")
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
    text = Path(__file__).read_text()
    asked = {
        verb for verb in VERBS if f'json("{verb}"' in text or f'"{verb}", "a", "--json"' in text
    }
    assert asked | {"run", "watch"} == set(VERBS)


# What the command finds


def environment_of(program: Program, *words: str, **options: Any) -> dict[str, str]:
    ran = program.run("run", "a", *words, "--", "env", **options)
    assert ran.returncode == 0, ran.stderr
    return dict(text.split("=", 1) for text in ran.stdout.splitlines() if "=" in text)


def test_the_command_finds_its_lock_in_the_environment(program: Program) -> None:
    found = environment_of(program, "--ttl", "90s")
    assert found["FENCELOCK_NAME"] == "a"
    assert found["FENCELOCK_TTL"] == "90"
    assert found["FENCELOCK_URL"] == program.url
    with program.client() as client, client.lock("a") as lease:
        assert 0 < int(found["FENCELOCK_FENCE"]) < lease.fence


def test_with_no_url_the_embedded_engine_serves_in_the_state_folder(program: Program) -> None:
    del program.environment["FENCELOCK_URL"]
    state = program.folder / "state"
    found = environment_of(program, env={"XDG_STATE_HOME": str(state)})
    assert found["FENCELOCK_URL"] == f"sqlite:///{state}/fencelock/locks.db"
    assert (state / "fencelock" / "locks.db").exists()


def test_stdin_and_stdout_are_the_commands(program: Program) -> None:
    ran = program.run("run", "a", "-v", "--", "cat", given="one\ntwo\n")
    assert ran.stdout == "one\ntwo\n"
    assert ran.stderr.splitlines()[0].startswith("fencelock: acquired 'a'")


def test_descriptors_that_the_user_opened_are_the_commands(program: Program) -> None:
    (program.folder / "given").write_text("from three")
    with open(program.folder / "given") as three, open(program.folder / "status", "w") as status:
        fds = [three.fileno(), status.fileno()]
        ls = program.run(
            *("run", "a", "--status-fd", str(fds[1]), "--", "ls", "/proc/self/fd"), pass_fds=fds
        )
        assert str(fds[0]) in ls.stdout.split()
        assert str(fds[1]) not in ls.stdout.split(), "its reader waits for the status alone"
        words = ("run", "a", "-c", f"cat /dev/fd/{fds[0]}")
        assert program.run(*words, pass_fds=fds).stdout == "from three"


def test_names_are_text_and_odd_bytes_are_refused(program: Program) -> None:
    ran = program.run("run", "größe ☃", "-c", 'echo "$FENCELOCK_NAME"')
    assert ran.stdout == "größe ☃\n"
    for encoding in ("utf-8", "ascii", "latin-1"):
        odd = program.start(
            "run", os.fsdecode(b"a\xff"), "--", "true", env={"PYTHONIOENCODING": encoding}
        )
        ran = end(odd)
        assert ran.returncode == 78
        assert "not valid UTF-8" in ran.stderr
        assert program.run("run", "--help", env={"PYTHONIOENCODING": encoding}).returncode == 0


def test_fifty_wrappers_run_strictly_one_after_another(program: Program) -> None:
    log = program.folder / "log"
    script = f'echo "begin $$" >> {log}; echo "end $$" >> {log}'
    crowd = [program.start("run", "a", "-w", "60s", "-c", script) for _ in range(50)]
    assert [end(process).returncode for process in crowd] == [0] * 50
    lines = log.read_text().splitlines()
    assert len(lines) == 100
    for begin, finish in zip(lines[::2], lines[1::2], strict=True):
        assert begin.replace("begin", "end") == finish


def test_a_password_is_never_shown(program: Program) -> None:
    url = "memory://joe:hunter2@h"
    assert environment_of(program, "--url", url)["FENCELOCK_URL"] == "memory://joe@h"
    for words in (["doctor", url], ["ls", "--url", url], ["bench", url, "--count", "2"]):
        assert "hunter2" not in program.run(*words, "--json").stdout
    for wrong in ("nosuch://joe:hunter2@h", "sqlite://joe:hunter2@h/a.db", "joe:hunter2@h"):
        ran = program.run("run", "a", "--url", wrong, "--", "true")
        assert ran.returncode == 78
        assert "hunter2" not in ran.stderr
