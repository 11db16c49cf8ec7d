"""What the command finds, and what others see of it."""

from __future__ import annotations

import os
from typing import Any

from tests.cli.program import Program, end


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
    crowd = [program.start("run", "a", "-w", "10m", "-c", script) for _ in range(50)]
    assert [end(process).returncode for process in crowd] == [0] * 50
    lines = log.read_text().splitlines()
    assert len(lines) == 100
    for begin, finish in zip(lines[::2], lines[1::2], strict=True):
        assert begin.replace("begin", "end") == finish


def test_a_password_is_never_shown(program: Program) -> None:
    url = "memory://joe:hunter2@h"
    for words in (["doctor", url], ["ls", "--url", url], ["bench", url, "--count", "2"]):
        assert "hunter2" not in program.run(*words, "--json").stdout
    for wrong in ("nosuch://joe:hunter2@h", "sqlite://joe:hunter2@h/a.db", "joe:hunter2@h"):
        ran = program.run("run", "a", "--url", wrong, "--", "true")
        assert ran.returncode == 78
        assert "hunter2" not in ran.stderr
