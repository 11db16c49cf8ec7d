"""The benchmark runs and reports. How fast anything is, no test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("filelock", reason="the peers of bench/ are not installed")
if sys.platform == "win32":
    pytest.skip("bench/ asks POSIX systems what a process has used", allow_module_level=True)

from bench import harness, usage
from bench import report as reports
from bench.contestant import Contestant
from bench.contestants.etcd_gateway import EtcdGateway
from bench.contestants.redis import RedisAio, RedisThreads
from bench.contestants.redis_py import RedisPy
from bench.contestants.service import ServiceAio, ServiceThreads
from bench.contestants.sqlite import Sqlite
from bench.harness import Result
from bench.load import http_is_whole
from bench.lock_service import place_of
from bench.redis_server import OnRedis
from bench.works.handoff import Handoff, Turn, changes, judge
from bench.works.pair import Pair
from tests.servers.redis import Redis
from tests.servers.server import until
from tests.servers.service import Service
from tests.servers.shared import shared

ROOT = Path(__file__).parents[2]
WORKS = ("pair", "tasks", "threads")
FIELDS = ("one machine", "redis")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("bench") / "report.json"
    only = [word for field in FIELDS for word in ("--only", field)]
    command = [sys.executable, "-W", "error", "-m", "bench", *WORKS, "--quick", *only]
    subprocess.run(
        [*command, "--json", str(file)],
        cwd=ROOT,
        check=True,
        timeout=100,
        stdout=subprocess.DEVNULL,
    )
    return json.loads(file.read_text())


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("pair", {"raw sqlite3", "fencelock sqlite", "fencelock sqlite asyncio", "filelock"}),
        ("pair", {"raw redis", "redis-py", "redis.asyncio", "fencelock redis"}),
        ("tasks", {"raw redis asyncio", "redis.asyncio", "fencelock redis asyncio"}),
        ("threads", {"raw redis", "redis-py", "fencelock redis"}),
    ],
)
def test_every_contestant_is_measured(report: Any, work: str, expected: set[str]) -> None:
    found = report["works"][work]
    assert expected <= {*found["contestants"]}
    assert not found["failed"]
    rounds = {"pair": 3, "tasks": 1, "threads": 1}[work]
    for figures in found["contestants"].values():
        assert all(figure > 0 for figure in figures["medians"].values())
        assert len(figures["rounds"]) == rounds


def test_figures_stand_beside_the_floor_and_the_peer_of_their_field(report: Any) -> None:
    pair = report["works"]["pair"]
    ratios = {name: figures["ratios"] for name, figures in pair["contestants"].items()}
    assert ratios["raw sqlite3"]["raw sqlite3"] == 1.0
    assert ratios["filelock"]["filelock"] == 1.0
    assert {*ratios["fencelock sqlite"]} == {"raw sqlite3", "filelock"}
    assert {*ratios["fencelock redis"]} == {"raw redis", "redis-py", "redis.asyncio"}
    assert {target["met"] for target in pair["targets"]} <= {True, False}
    assert {(target["who"], target["versus"]) for target in pair["targets"]} == {
        ("fencelock sqlite", "raw sqlite3"),
        ("fencelock sqlite", "filelock"),
        ("fencelock redis", "raw redis"),
        ("fencelock redis", "redis-py"),
        ("fencelock redis asyncio", "redis.asyncio"),
    }


def test_tasks_are_counted_with_the_connections_they_share(report: Any) -> None:
    found = report["works"]["tasks"]["contestants"]
    assert found["raw redis asyncio"]["medians"]["connections"] == 1
    assert found["redis.asyncio"]["medians"]["connections"] == 256


def bench_server() -> Redis:
    return Redis()


@pytest.mark.parametrize("kind", [RedisThreads, RedisAio, RedisPy])
def test_a_pair_on_redis_is_two_requests_on_one_connection(kind: type[OnRedis]) -> None:
    contestant = kind(shared(bench_server).url)
    with contestant.gauge() as gauge, contestant.connect() as session:
        before = gauge.look()
        lock = session.lock("pair")
        lock.acquire()
        lock.release()
        warm = gauge.look()
        lock.acquire()
        lock.release()
        after = gauge.look()
    assert before is not None
    assert warm is not None
    assert after is not None
    assert after.requests - warm.requests == 2
    assert after.connections - before.connections <= 1
    assert after.listening == before.listening


def test_one_who_listens_at_the_server_is_seen() -> None:
    server = shared(bench_server)
    with server.line() as line, RedisPy(server.url).gauge() as gauge:
        before = gauge.look()
        line.ask("SUBSCRIBE", "channel")
        after = gauge.look()
    assert before is not None
    assert after is not None
    assert (after.requests - before.requests, after.listening - before.listening) == (1, 1)


def bench_service() -> Service:
    return Service("memory://")


def place() -> str:
    service = shared(bench_service)
    return place_of(service.url, service)


@pytest.mark.parametrize("kind", [ServiceThreads, ServiceAio])
def test_a_pair_through_the_service_is_two_requests(kind: type[ServiceThreads]) -> None:
    contestant = kind(place())
    with contestant.gauge() as gauge, contestant.connect() as session:
        lock = session.lock("pair")
        lock.acquire()
        lock.release()
        before = gauge.look()
        lock.acquire()
        lock.release()
        after = gauge.look()
    assert before is not None
    assert after is not None
    assert (after.requests - before.requests, after.connections, after.waiting) == (2, 1, 0)
    assert after.memory > 1_000_000


def test_one_who_waits_at_the_service_is_seen() -> None:
    contestant = ServiceThreads(place())
    with contestant.gauge() as gauge, contestant.connect() as session:
        lock, other = session.lock("waited for"), session.lock("waited for")
        lock.acquire()
        with ThreadPoolExecutor() as pool:
            waiter = pool.submit(other.acquire)
            try:
                until(lambda: getattr(gauge.look(), "waiting", 0) == 1, "one to wait", within=30)
            finally:
                lock.release()
            waiter.result(60)
        other.release()
        assert getattr(gauge.look(), "waiting", -1) == 0


@pytest.mark.parametrize("length", [0, 5, 12])
def test_an_answer_is_whole_at_its_last_byte(length: int) -> None:
    body = b"x" * length
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nA: b\r\n\r\n%b" % (length, body)
    assert [size for size in range(len(answer) + 1) if http_is_whole(answer[:size])] == [
        len(answer)
    ]


def test_whoever_has_a_name_is_not_left_out_in_silence() -> None:
    class Base(Contestant):
        field = "nowhere"

    class Named(Base):
        name = "named"

    assert not harness.takes_part(Base)
    with pytest.raises(TypeError, match="Named has a name, but does not say: connect"):
        harness.takes_part(Named)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says where a process runs")
def test_a_pinned_process_runs_on_one_core_with_all_its_threads() -> None:
    pid, core = shared(bench_server).pid, usage.cores()[-1]
    usage.pin(pid, core)
    threads = [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    assert len(threads) > 1
    assert [os.sched_getaffinity(thread) for thread in threads] == [{core}] * len(threads)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (
            "load",
            {
                "FastAPI service",
                "fencelock service requests",
                "raw redis requests",
                "raw uvicorn",
                "redis engine alone",
            },
        ),
        ("crowd", {"fencelock service asyncio"}),
    ],
)
def test_lock_services_are_measured(tmp_path: Path, work: str, expected: set[str]) -> None:
    file = tmp_path / "report.json"
    command = [sys.executable, "-m", "bench", work, "--quick", "--json", str(file)]
    command += ["--rounds", "2"] if work == "load" else []
    subprocess.run(command, cwd=ROOT, check=True, timeout=100, stdout=subprocess.DEVNULL)
    found = json.loads(file.read_text())["works"][work]
    assert {*found["contestants"]} - {EtcdGateway.name} == expected
    assert not found["failed"]


def test_the_report_names_neither_the_machine_nor_its_paths(report: Any) -> None:
    text = json.dumps(report)
    assert str(ROOT) not in text
    assert tempfile.gettempdir() not in text
    assert {*report["machine"]} == {
        "architecture",
        "cores",
        "load",
        "packages",
        "processor",
        "python",
        "sqlite",
        "system",
    }


def turn(who: int, asked: int, joined: int, got: int) -> Turn:
    return Turn(who, asked, joined, got, left=got + 1, fence=0)


def test_turns_in_the_order_of_the_queue_are_not_overtaking() -> None:
    turns = [turn(1, 0, 1, 10), turn(2, 2, 3, 20), turn(1, 12, 13, 30)]
    assert judge(turns, end=100) == {"overlaps": 0, "overtaking": 0, "longest_ms": 18 / 1e6}
    assert changes(turns, end=100) == 2


def test_a_grant_before_one_that_stood_in_the_queue_is_overtaking() -> None:
    turns = [turn(1, 5, 6, 10), turn(1, 12, 13, 20), turn(2, 1, 2, 30), turn(3, 25, 26, 40)]
    assert judge(turns, end=100)["overtaking"] == 50


def test_one_who_asked_while_the_other_was_still_joining_has_not_overtaken() -> None:
    assert judge([turn(1, 3, 4, 10), turn(2, 1, 5, 20)], end=100)["overtaking"] == 0


def test_two_who_hold_the_lock_at_once_are_seen() -> None:
    turns = [Turn(1, 0, 1, 10, 20, 1), Turn(2, 2, 3, 15, 30, 2)]
    assert judge(turns, end=100)["overlaps"] == 1


def test_one_bad_round_is_not_hidden_by_the_median() -> None:
    result = Result(Handoff(), [Sqlite])
    quiet = {column.key: 0.0 for column in Handoff.columns}
    result.rounds["fencelock sqlite"] = [quiet, quiet, {**quiet, "overlaps": 1.0}]
    missed = {verdict.target.key for verdict in result.verdicts() if not verdict.met}
    assert missed == {"handoffs", "overlaps"}


def test_each_field_has_a_table_with_the_columns_that_say_something_about_it() -> None:
    result = Result(Pair(), [Sqlite, RedisPy])
    result.rounds["fencelock sqlite"] = [{"wall_us": 20.0}]
    result.rounds["redis-py"] = [{"wall_us": 100.0, "cpu_us": 50.0}]
    lines = reports.table(result, quick=True).splitlines()
    one_machine, redis = lines.index("- one machine"), lines.index("- redis")
    assert "CPU" not in lines[one_machine + 1]
    assert "CPU" in lines[redis + 1]
    assert lines[redis + 1].endswith("x redis-py")


@pytest.mark.parametrize(("stolen", "said"), [(None, False), (0.01, False), (0.5, True)])
def test_a_host_that_gave_its_processors_to_others_is_told_of(
    stolen: float | None, said: bool
) -> None:
    result = Result(Pair(), [Sqlite])
    result.rounds["fencelock sqlite"] = [{"wall_us": 20.0}]
    result.stolen = stolen
    assert ("took 50% of the processors" in reports.table(result, quick=False)) is said


def test_what_others_took_is_a_share_of_all_that_was_spent_meanwhile() -> None:
    assert usage.stolen(usage.Ticks(1000, 100), usage.Ticks(1200, 150)) == 0.25
    assert usage.stolen(None, usage.Ticks(1, 0)) is None
    assert usage.stolen(usage.Ticks(1, 0), usage.Ticks(1, 0)) is None
