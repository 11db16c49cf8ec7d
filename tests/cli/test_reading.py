"""What is written on a command line, and what is made of it."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.cli import lease_token
from fencelock.cli.acquisition import describe
from fencelock.cli.clock import brief, seconds
from fencelock.cli.codes import BadArguments
from fencelock.cli.main import parser_of
from fencelock.cli.run.kill_plan import KillPlan
from fencelock.cli.verbs import run
from fencelock.errors import UsageError
from fencelock.model import FENCE_MAX, Grant, Holding, State, Waiting


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("1m30s", 90),
        ("2h", 7200),
        ("1d", 86_400),
        ("1.5h", 5400),
        ("PT30S", 30),
        ("pt1m30s", 90),
        ("P1DT2H", 93_600),
        ("P1D", 86_400),
        ("10", 10),
        ("0.25", 0.25),
        (" 5 ", 5),
        ("0", 0),
    ],
)
def test_durations_are_read_as_people_write_them(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "-1s",
        "1 s",
        "1x",
        "ms",
        "P",
        "PT",
        "P1DT",
        "1e3",
        "inf",
        "nan",
        "1s foo",
        "٣s",
        "1,5s",
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadArguments, match="30s"):
        seconds(text)


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        assert seconds(text) >= 0
    except BadArguments:
        pass


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_parts_add_up(hours: int, minutes: int, secs: int, ms: int) -> None:
    total = hours * 3600 + minutes * 60 + secs + ms / 1000
    assert seconds(f"{hours}h{minutes}m{secs}s{ms}ms") == pytest.approx(total)
    assert seconds(f"PT{hours}H{minutes}M{secs}S") == pytest.approx(total - ms / 1000)


@given(st.floats(0, 1e7))
def test_a_brief_duration_is_near_the_truth_and_can_be_read_again(value: float) -> None:
    text = brief(value)
    assert len(text) <= 8
    assert seconds(text) == pytest.approx(value, rel=0.05, abs=0.001)


def options_of(*words: str, command: tuple[str, ...] = ("true",)) -> Any:
    options = parser_of("run")[0].parse_args(["a", *words])
    options.command = list(command)
    return options


def read(*words: str, command: tuple[str, ...] = ("true",)) -> run.RunRequest:
    return run.read(options_of(*words, command=command))


def test_an_order_has_safe_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCELOCK_LEASE_FD", raising=False)
    found = read(command=("/usr/bin/backup", "--password", "x"))
    assert (found.lock.name, found.lock.ttl, found.lock.timeout) == ("a", 30.0, None)
    assert found.plan == KillPlan(signal.SIGTERM, True, 5.0, margin=1.0)
    assert found.lock.busy_code == 75
    assert found.lock.meta == {"command": "backup"}
    assert found.max_runtime is None


def test_an_order_takes_every_option() -> None:
    found = read(
        *("-w", "1m", "-E", "3", "--ttl", "10s", "--grace", "1s", "--max-runtime", "1h"),
        *("--meta", "a=b=c", "--meta", "d=", "--on-lost", "signal:usr1", "-q"),
    )
    assert (found.lock.timeout, found.lock.busy_code, found.lock.ttl) == (60.0, 3, 10.0)
    assert (found.grace, found.max_runtime) == (1.0, 3600.0)
    assert found.lock.meta == {"command": "true", "a": "b=c", "d": ""}
    assert found.plan == KillPlan(signal.SIGUSR1, False, 1.0, margin=0.5)
    assert found.lock.quiet
    assert read("-n").lock.timeout == 0
    assert read("--skip-ok").lock.busy_code == 0
    assert read("--ttl", "2s").grace == 0.5, "a quarter of a short ttl"


def test_a_line_is_run_by_the_users_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/zsh")
    assert read("-c", "a | b", command=()).command == ["/bin/zsh", "-c", "a | b"]
    monkeypatch.delenv("SHELL")
    assert read("-c", "a | b", command=()).command == ["/bin/sh", "-c", "a | b"]


@pytest.mark.parametrize(
    "words", [("-n", "-w", "1s"), ("--on-lost", "signal:NOPE"), ("--on-lost", "x"), ("-c", "line")]
)
def test_what_contradicts_itself_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(BadArguments):
        read(*words)


def test_a_grace_that_leaves_no_time_for_renewal_is_refused() -> None:
    with pytest.raises(UsageError, match="grace of 6s"):
        read("--ttl", "10s", "--grace", "6s")


def test_a_nested_wrapper_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELOCK_LEASE_FD", "7")
    assert read().plan.nested


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40),
    st.integers(1, FENCE_MAX),
    st.floats(0.05, 604_800),
)
def test_a_lease_survives_the_way_through_a_script(name: str, fence: int, ttl: float) -> None:
    text = lease_token.pack(Grant(name, "0f" * 16, fence, ttl, 1.0, 2.0))
    assert text.replace("-", "").replace("_", "").replace(".", "").isalnum()
    assert lease_token.unpack(f" {text}\n") == Grant(name, "0f" * 16, fence, ttl, 0.0, 0.0)


@given(st.text(max_size=30))
def test_what_is_no_lease_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        lease_token.unpack(f"fl1.{text}")
    assert len(text) < 12 or text not in str(refused.value)


def test_the_live_line_says_place_holder_and_time() -> None:
    who = {"host": "web1", "pid": "7", "command": "backup"}
    holder = Holding("a", 5, 30.0, 65.0, 20.0, who)
    queue = (Waiting(9.0, {"pid": 1}), Waiting(4.0, {"pid": 2}))
    assert describe(State("a", (holder,), queue), 4.2, 2) == (
        "waiting for 'a' for 4.2s, position 2 of 2, held by web1/7 (backup) for 1m05s"
    )
    assert describe(State("a"), 0.5, 2) == "waiting for 'a' for 500ms"
