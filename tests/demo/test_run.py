"""The demo as its user runs it: a real process with real workers, frozen, woken, killed.

No test trusts what the demo prints without a look into the files that it was told to keep.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fencelock.demo.scenario import Plan, Scenario, Trouble
from tests.demo.observer import (
    DEADLINE_S,
    DEMO,
    Start,
    check_logs,
    read_until,
    rows,
    runs,
    state_of,
    wait_until,
    workers_in,
)

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="the demo freezes a process with SIGSTOP"
)


def test_the_store_refuses_the_late_write(start: Start, tmp_path: Path) -> None:
    kept, summary = tmp_path / "kept", tmp_path / "summary.json"
    demo = start("--keep", str(kept), "--json", str(summary), "--seats", "6", "--workers", "4")
    output, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, output + errors
    assert errors == ""
    assert "\033" not in output

    sales = rows(kept, "SELECT seat, customer, worker, fence FROM sales ORDER BY id")
    assert len(sales) == len({seat for seat, *_ in sales}) == 6
    assert len({customer for _, customer, *_ in sales}) == 6
    fences = [fence for *_, fence in sales]
    assert fences == sorted(set(fences))
    assert rows(kept, "SELECT seat, customer FROM seats ORDER BY seat") == sorted(
        (seat, customer) for seat, customer, *_ in sales
    )

    facts = json.loads(summary.read_text())
    late = facts["late"]
    refused = rows(kept, "SELECT seat, customer, worker, fence FROM refusals")
    assert tuple(late.values()) in refused
    (winner,) = [sale for sale in sales if sale[0] == late["seat"]]
    assert winner[2] != late["worker"]
    assert winner[3] > late["fence"]
    assert facts["refused"] == [dict(zip(late, row, strict=True)) for row in refused]
    assert (facts["shown"], facts["seats_booked"], facts["sold_twice"]) == (True, 6, {})

    workers = len({worker for _, _, worker, _ in sales})
    assert f"6 seats booked by {workers} workers, " in output
    assert ", no seat sold twice." in output
    assert output.splitlines()[-1].endswith("in time: fencelock lab")
    assert re.search(rf"{late['worker']} +{late['fence']}  REFUSED: ", output)
    assert re.search(rf"{late['worker']} +{late['fence']}  its lease is lost: ", output)
    check_logs(kept, 4)
    assert not any(runs(pid) for pid in workers_in([output]))


def test_without_the_fence_a_seat_is_sold_twice(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    kept, summary = tmp_path / "käpt?", tmp_path / "summary.json"  # a name that needs quoting
    environment["PYTHONIOENCODING"] = "ascii"
    demo = start("--unsafe", "--keep", str(kept), "--json", str(summary))
    output, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, output + errors
    assert errors == ""

    sales = rows(kept, "SELECT seat, customer, worker, fence FROM sales ORDER BY id")
    counts = Counter(seat for seat, *_ in sales)
    assert len(counts) == 8
    facts = json.loads(summary.read_text())
    late = facts["late"]
    assert counts[late["seat"]] == 2
    first, second = [sale for sale in sales if sale[0] == late["seat"]]
    assert second == tuple(late.values())
    assert first[3] > second[3]
    assert first[2] != second[2]
    assert rows(kept, "SELECT * FROM refusals") == []
    assert [*facts["sold_twice"]] == [seat for seat, count in counts.items() if count > 1]

    for _, customer, worker, fence in (first, second):
        assert f"to {customer} by {worker} (fence {fence})" in output
    assert "SOLD TWICE" in output
    assert "This is what happens without the fence." in output
    check_logs(kept, 3)


def test_the_smallest_run_shows_it_too(start: Start, temporary: Path) -> None:
    demo = start("--seats", "1", "--workers", "2")
    output, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, output + errors
    assert "1 seat booked by 1 worker, 1 late write refused, no seat sold twice." in output
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes_the_frozen_one_too(
    start: Start, temporary: Path, number: signal.Signals
) -> None:
    demo = start()
    pids = workers_in(read_until(demo, "SIGSTOP"))
    if Path("/proc/self/stat").exists():
        wait_until(lambda: "T" in [state_of(pid) for pid in pids])  # it really is frozen
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 128 + number
    assert errors == f"\nStopped by {number.name}, with all workers.\n"
    assert not any(runs(pid) for pid in pids)
    assert [*temporary.iterdir()] == []


def test_no_worker_outlives_a_demo_that_was_killed(start: Start) -> None:
    # In a session of its own, so that nobody there is left to look after a frozen process.
    demo = start(new_session=True)
    pids = workers_in(read_until(demo, "SIGSTOP"))
    demo.kill()
    wait_until(lambda: not any(runs(pid) for pid in pids))


def test_a_worker_that_is_killed_is_named(start: Start, temporary: Path) -> None:
    demo = start()
    lines = read_until(demo, "SIGSTOP")
    first, *_ = pids = workers_in(lines)
    os.kill(first, signal.SIGKILL)
    _, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 1
    assert f"worker 1 (process {first}) was killed by SIGKILL" in errors
    assert "Traceback" not in errors
    assert not any(runs(pid) for pid in pids)
    assert [*temporary.iterdir()] == []


def test_a_worker_that_fails_says_why(tmp_path: Path) -> None:
    """Nobody has made the tables of the store."""
    plan = Plan(seats=1, workers=2, unsafe=False, seconds_limit=DEADLINE_S)
    with (
        Scenario(plan, lambda *_: None) as scenario,
        pytest.raises(Trouble, match=r"worker \d .* died: .*no such table"),
    ):
        scenario.play(tmp_path)


def test_the_time_limit_is_kept(start: Start, temporary: Path) -> None:
    demo = start("--seconds-limit", "1")
    output, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 1
    assert errors == "\nThe demo could not be shown: it did not end in 1 s (--seconds-limit)\n"
    started = "starts as process" in output  # not so where a second is over sooner
    assert not started or not any(runs(pid) for pid in workers_in([output]))
    assert [*temporary.iterdir()] == []


def test_a_reader_that_leaves_is_no_error(start: Start, temporary: Path) -> None:
    demo = start()
    lines = read_until(demo, "SIGSTOP")
    assert demo.stdout is not None
    assert demo.stderr is not None
    demo.stdout.close()
    assert demo.wait(DEADLINE_S) == 1
    assert demo.stderr.read() == ""
    assert not any(runs(pid) for pid in workers_in(lines))
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize(
    ("arguments", "variables", "colored"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": ""}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"TERM": "dumb"}, False),
        (["--no-color"], {}, False),
    ],
)
def test_a_terminal_gets_color_unless_it_is_refused(
    environment: dict[str, str], arguments: list[str], variables: dict[str, str], colored: bool
) -> None:
    output, code = run_in_terminal(arguments, environment | variables)
    assert ("\033[" in output) is colored
    assert code == 130
    assert "Stopped by SIGINT" in output
    assert "Traceback" not in output
    assert not any(runs(pid) for pid in workers_in([output]))


def run_in_terminal(arguments: list[str], environment: dict[str, str]) -> tuple[str, int]:
    """Run the demo in a terminal of its own, and press Ctrl-C when it sells."""
    enter = "import os, sys; os.login_tty(0); os.execv(sys.executable, sys.argv[1:])"
    ours, theirs = os.openpty()
    try:
        command = [sys.executable, "-c", enter, *DEMO, *arguments]
        demo = subprocess.Popen(command, stdin=theirs, env=environment)
    finally:
        os.close(theirs)
    output = b""
    try:
        while b"holds the lock" not in output:
            try:
                output += os.read(ours, 4096)
            except OSError:
                raise AssertionError(f"it ended by itself: {output.decode()}") from None
        os.write(ours, b"\x03")
        while True:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # how Linux says that nobody is left at the other end
                break
            if not chunk:
                break
            output += chunk
    finally:
        os.close(ours)
        demo.wait(DEADLINE_S)
    return output.decode(), demo.returncode


@pytest.mark.parametrize(
    "arguments",
    [["--seats", "0"], ["--workers", "1"], ["--seconds-limit", "nan"], ["--seats", "many"]],
)
def test_wrong_arguments_are_refused(start: Start, arguments: list[str]) -> None:
    demo = start(*arguments)
    output, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 2
    assert arguments[0] in errors.splitlines()[-1]
    assert output == ""


def test_an_earlier_run_is_not_overwritten(start: Start, tmp_path: Path) -> None:
    (tmp_path / "seats.db").write_text("precious")
    demo = start("--keep", str(tmp_path))
    _, errors = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 1
    assert "is not empty" in errors
    assert (tmp_path / "seats.db").read_text() == "precious"


def test_ctrl_c_while_the_demo_is_loaded_says_nothing(tmp_path: Path) -> None:
    """A module of the library that takes its time stands for a slow disk."""
    (tmp_path / "argparse.py").write_text("import time\nprint('loads', flush=True)\ntime.sleep(60)")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(
        DEMO,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        read_until(demo, "loads")
        demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=DEADLINE_S)
    assert (output, errors) == ("", "")
    assert demo.returncode == -signal.SIGINT
