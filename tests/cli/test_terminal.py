"""What a person at a terminal sees and can do."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.cli.program import COMMAND, Program
from tests.cli.typist import Typist

FOREGROUND = "import os; print('mine' if os.tcgetpgrp(0) == os.getpgrp() else 'not mine')"

Start = Callable[..., Typist]


@pytest.fixture
def typing(program: Program) -> Iterator[Start]:
    typists: list[Typist] = []

    def start(*words: str, piped: bool = False, **environment: str) -> Typist:
        pipeline = ["sh", "-c", '"$@" | cat', "sh"] if piped else []
        typists.append(Typist(program, [*pipeline, *COMMAND, *words], **environment))
        return typists[-1]

    yield start
    for typist in typists:
        typist.close()


def test_the_live_line_tells_place_and_holder(program: Program, typing: Start) -> None:
    with program.client() as client, client.lock("seat", meta={"command": "backup"}) as lease:
        typist = typing("run", "seat", "--", "echo", "ran at last")
        typist.see("waiting for 'seat'", "position 1 of 1", f"held by {os.uname().nodename}/")
        typist.see(f"{os.getpid()} (backup) for")
        lease.release()
        shown = typist.see("ran at last", "[ended with 0]")
    assert "\r\x1b[K" + "ran at last" in shown, "the line is gone before the command speaks"


def test_the_live_line_counts_holders_and_places_of_its_own_kind(
    program: Program, typing: Start
) -> None:
    with program.client() as client, client.lock("seat"):
        readers = [client.rwlock("seat").read().acquire() for _ in range(3)]
        lock = typing("run", "seat", "--", "true")
        lock.see("position 1 of 1")
        writer = typing("run", "seat", "--write", "--", "true")
        writer.see("position 1 of 1", "and 2 others")
        for reader in readers:
            reader.release()
        writer.see("[ended with 0]")


def test_there_is_no_line_when_nobody_reads_or_wants_it(program: Program, typing: Start) -> None:
    with program.client() as client, client.lock("seat"):
        quiet = typing("run", "seat", "-q", "-w", "1s", "--", "true")
        dumb = typing("run", "seat", "-w", "1s", "--", "true", TERM="dumb")
        piped = program.run("run", "seat", "-w", "1s", "--", "true")
        assert "waiting for" not in quiet.see("[ended with 75]")
        assert "waiting for" not in dumb.see("[ended with 75]")
    assert "waiting for" not in piped.stderr


def test_ctrl_c_ends_the_wait(program: Program, typing: Start) -> None:
    with program.client() as client, client.lock("seat"):
        typist = typing("run", "seat", "--", "echo", "ran")
        typist.see("position 1 of 1")
        typist.type("\x03")
        assert "Traceback" not in typist.see("[ended with 130]")
        assert client.inspect("seat").waiters == ()


def test_the_terminal_is_lent_and_given_back(program: Program, typing: Start) -> None:
    typist = typing("run", "a", "--", sys.executable, "-c", FOREGROUND)
    assert "not mine" not in typist.see("mine", "[ended with 0]")


def test_the_command_reads_the_terminal(typing: Start) -> None:
    typist = typing("run", "a", "-c", "echo name?; read name; echo hello $name")
    typist.see("name?")
    typist.type("world\n")
    typist.see("hello world", "[ended with 0]")


def test_a_command_in_a_pipeline_gets_the_terminal_when_it_asks(typing: Start) -> None:
    ask = "echo name?; read name < /dev/tty; echo hello $name"
    typist = typing("run", "a", "-c", ask, piped=True)
    typist.see("name?")
    typist.type("world\n")
    typist.see("hello world", "[ended with 0]")


def test_ctrl_c_reaches_the_command_once(typing: Start) -> None:
    # A trap waits for a read that has just begun, for ever; between two short sleeps it is run.
    trap = "trap 'echo got INT; got=1' INT; echo up; until [ $got ]; do sleep 0.02; done"
    typist = typing("run", "a", "-c", f"{trap}; read x; read y; exit 7")
    typist.see("up")
    typist.type("\x03")
    typist.see("got INT")
    typist.type("one\ntwo\n")
    assert typist.see("[ended with 7]").count("got INT") == 1


def test_ctrl_z_stops_both_and_fg_goes_on(program: Program, typing: Start) -> None:
    typist = typing("run", "a", "-c", "read x; echo up; read x; echo went on $x; exit 6")
    typist.type("\n")  # once it has read this, the terminal is its own
    typist.see("up")
    typist.type("\x1a")
    typist.see("[stopped]")
    typist.type("fg\n")
    typist.type("well\n")
    typist.see("went on well", "[ended with 6]")


def test_a_command_that_sleeps_after_ctrl_z_is_stopped_in_time(
    program: Program, typing: Start
) -> None:
    line = "trap 'echo told; exit 0' TERM; read x; echo up; read x"
    typist = typing("run", "a", "--ttl", "3s", "--grace", "1s", "-c", line)
    typist.type("\n")  # once it has read this, the terminal is its own
    typist.see("up")
    typist.type("\x1a")
    typist.see("[stopped]", "told")
    typist.type("fg\n")
    typist.see("[ended with 79]")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_revoke_asks(answer: str, code: int, program: Program, typing: Start) -> None:
    with program.client() as client:
        lease = client.lock("seat", renew=False).acquire()
        typist = typing("revoke", "seat", "--reason", "over")
        typist.see("'seat' is held by", "[y/N]")
        typist.type(f"{answer}\n")
        typist.see(f"[ended with {code}]")
        assert bool(client.holders("seat")) == (code == 1)
        lease.release()


def test_watch_draws_a_table(program: Program, typing: Start) -> None:
    with program.client() as client:
        typist = typing("watch", "--interval", "50ms")
        typist.see("nothing is held")
        with client.lock("seat:1"):
            typist.see("NAME", "HOLDER", "FENCE", "seat:1")
        typist.seen = ""
        typist.see("nothing is held")
        typist.type("\x03")
        typist.see("[ended with 130]")


def test_colors_only_where_they_are_wanted(program: Program, typing: Start) -> None:
    color = re.compile(r"\x1b\[\d+m")
    assert color.search(typing("show", "a").see("[ended with 0]"))
    assert not color.search(typing("show", "a", NO_COLOR="1").see("[ended with 0]"))
    assert not color.search(typing("show", "a", TERM="dumb").see("[ended with 0]"))
    assert not color.search(program.run("show", "a").stdout)
    assert color.search(program.run("show", "a", env={"FORCE_COLOR": "1"}).stdout)


def test_control_characters_of_others_do_not_reach_the_terminal(
    program: Program, typing: Start
) -> None:
    with program.client() as client, client.lock("seat", meta={"command": "\x1b]0;evil\x07"}):
        assert "\x1b]0;evil" not in typing("show", "seat").see("held", "[ended with 0]")


@pytest.mark.parametrize("words", [["run", "a", "--", "true"], ["hold", "a"], ["acquire", "a"]])
def test_a_person_is_told_which_engine_is_used_when_none_was_named(
    words: list[str], program: Program, typing: Start
) -> None:
    del program.environment["FENCELOCK_URL"]
    typist = typing(*words)
    typist.see("no engine was named", "sqlite:///", "this host")
    typist.type("\x04")
    assert typist.see("[ended with 0]").count("no engine was named") == 1


@pytest.mark.parametrize("options", [["-q"], ["--url", "sqlite:///b.db"]])
def test_nobody_is_told_who_knows_or_does_not_ask(
    options: list[str], program: Program, typing: Start
) -> None:
    del program.environment["FENCELOCK_URL"]
    assert "no engine" not in typing("run", "a", *options, "--", "true").see("[ended with 0]")
    assert program.run("run", "a", "--", "true").stderr == "", "no terminal, nothing to say"
