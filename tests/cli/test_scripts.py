"""Leases that a script carries from one command to the next."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.cli.program import COMMAND, Program


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
    assert set(facts) == {"schema", "url", "name", "fence", "slot", "ttl_s", "lease"}
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


def test_an_empty_argument_is_no_lease_whatever_the_environment_has(program: Program) -> None:
    """It is a variable of a script that is not set: then no other lock is released."""
    lease = program.run("acquire", "a", "--ttl", "10m").stdout.strip()
    for verb in ("release", "renew"):
        ran = program.run(verb, "", env={"FENCELOCK_LEASE": lease})
        assert ran.returncode == 125
        assert "no lease" in ran.stderr
    assert program.run("release", lease).returncode == 0


def test_a_relative_file_is_the_same_one_in_every_folder(program: Program) -> None:
    """For what is run under the lock, and for a script that carries its lease."""
    (program.folder / "sub").mkdir()
    environment = {**program.environment, "FENCELOCK_URL": "sqlite:///its%20locks.db"}
    script = f"""
        fencelock() {{ {sys.executable} -W error -m fencelock "$@"; }}
        eval "$(fencelock acquire a --ttl 10m --shell $1)" || exit
        cd sub; fencelock renew; fencelock release; echo "released: $?"; cd ..
        fencelock run b $1 -- sh -c 'cd sub; {sys.executable} -m fencelock run b -n -- true'
        echo "taken: $?"; ls sub
    """
    for url in ("", "--url sqlite:///its%20locks.db?request_timeout=4"):
        ran = subprocess.run(
            ["sh", "-c", script, "sh", url],
            env=environment,
            cwd=program.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.stdout.split("\n") == ["released: 0", "taken: 75", ""], ran.stderr
