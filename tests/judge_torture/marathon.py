"""The long tests, in one command: storms, then ``fencelock torture`` over every engine.

    python -m tests.judge_torture.marathon                  # what `make torture` runs
    python -m tests.judge_torture.marathon --storms 0 --seconds 60 --only redis

It says beforehand how long it takes, and stops by itself: each engine has its share of the time.
What a run needs and is not installed is left out, with its reason. It ends with a summary, and with
1 when a promise was broken or something could not be judged.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.faults.engines import STORES, suitable
from tests.servers.mariadb import mariadb
from tests.servers.mysql import mysql
from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.server import Missing
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper

AFTER_S = 120.0  # to come to rest, to judge, and to stop
REST_S = 4.0  # what that takes, mostly
STORM_S = 8.0  # what a storm takes, mostly
INTERRUPTED = 130

Outcome: TypeAlias = Literal["passed", "BROKEN", "ERROR", "skipped"]

PLACES: dict[str, Callable[[Path], str]] = {
    **{name: store.fresh for name, store in STORES.items() if name not in ("memory", "zookeeper")},
    "postgresql mode=advisory": lambda _: shared(Postgresql).url("mode=advisory"),
    "postgresql mode=row": lambda _: shared(Postgresql).url("mode=row"),
    "mariadb mode=advisory": lambda _: f"{shared(mariadb).url('mariadb')}?mode=advisory",
    "mysql mode=advisory": lambda _: f"{shared(mysql).url()}?mode=advisory&tls=no",
    "zookeeper": lambda _: shared(ZooKeeper).fresh_url(),  # its session follows the ttl
    "redis beside redis-py": lambda _: shared(Redis).fresh_url(),
}


def run(name: str, url: str, options: argparse.Namespace) -> dict[str, Any]:
    """One torture in a process of its own."""
    words = ["--seconds", str(options.seconds), "--seed", str(options.seed), "--json"]
    words += ["--clients", str(options.clients), "--ttl", str(options.ttl)]
    if name.endswith("redis-py"):
        words += ["--library", "redis-py"]
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "fencelock", "torture", url, *words],
            capture_output=True,
            text=True,
            timeout=2 * options.seconds + AFTER_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return {"error": f"it did not end within {error.timeout:g} s"}
    if not ran.stdout:
        return {"error": ran.stderr.strip() or f"it ended with {ran.returncode}"}
    facts: dict[str, Any] = json.loads(ran.stdout)
    return facts


def line(name: str, facts: dict[str, Any]) -> str:
    """What came of it, in one line."""
    if "error" in facts:
        return f"{name:<26} ERROR {facts['error']}"
    faults = " ".join(f"{fault} {count}" for fault, count in facts["faults"].items() if count)
    broken = [row["question"] for row in facts["verdict"] if row["outcome"] == "violated"]
    plain, guarded = facts["unguarded"], facts["guarded"]
    return (
        f"{name:<26} {'passed' if facts['passed'] else 'BROKEN'}  {facts['tenures']:>4} tenures  "
        f"lost {plain['lost']} of {plain['acknowledged']} without a guard, "
        + (f"{guarded['lost']} of {guarded['acknowledged']} with; " if guarded else "no guard; ")
        + f"{faults}{'; ' if broken else ''}{', '.join(broken)}"
    )


def tortures(names: list[str], options: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    """Torture these engines, one after the other, and tell of each."""
    with tempfile.TemporaryDirectory(prefix="fencelock-marathon-") as folder:
        for name in names:
            try:
                facts = run(name, PLACES[name](Path(folder)), options)
            except Missing as missing:
                say(f"{name:<26} skipped: {missing}")
                yield name, "skipped"
                continue
            say(line(name, facts))
            if facts.get("comparison"):
                say(line("  redis-py", facts["comparison"]))
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({"engine": name, **facts}) + "\n")
            yield name, "ERROR" if "error" in facts else "passed" if facts["passed"] else "BROKEN"


def storms(options: argparse.Namespace) -> Outcome:
    """Play the storms; what failed is told by pytest."""
    play = [sys.executable, "-m", "pytest", "-q", "-n", str(options.jobs)]
    environment = {**os.environ, "FENCELOCK_STORMS": str(options.storms)}
    ended = subprocess.run([*play, "tests/faults/test_storm.py"], env=environment).returncode
    return "passed" if ended == 0 else "BROKEN" if ended == 1 else "ERROR"


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def read() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.judge_torture.marathon")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each engine (20)")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--ttl", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="engines whose name has this in it; no storms")
    parser.add_argument("--storms", type=int, default=6, help="for each engine and flavor (6)")
    parser.add_argument("--jobs", type=int, default=4, help="storms at a time (4)")
    parser.add_argument("--json", type=Path, help="write all figures there, one object per line")
    options = parser.parse_args()
    if options.only:
        options.storms = 0
    return options


def main() -> int:
    options = read()
    names = [name for name in PLACES if options.only in name]
    count = options.storms * 2 * len(suitable({"processes"}))
    runs = len(names) + sum(name.endswith("redis-py") for name in names)
    length = count * STORM_S / options.jobs + runs * (options.seconds + REST_S)
    say(
        f"storms: {count}; then tortures of {options.seconds:g} s: {len(names)}. This takes about "
        f"{length / 60:.0f} min, more on a busy machine"
    )
    began, outcomes = time.monotonic(), dict[str, Outcome]()
    try:
        if count:
            outcomes["storms"] = storms(options)
        outcomes.update(tortures(names, options))
    except KeyboardInterrupt:
        say("\ninterrupted")
        return INTERRUPTED
    finally:
        passed = sum(outcome == "passed" for outcome in outcomes.values())
        took = time.monotonic() - began
        say(f"\n{passed} of {len(names) + bool(count)} passed, in {took / 60:.1f} minutes")
        for name, outcome in outcomes.items():
            if outcome != "passed":
                say(f"  {outcome:<8} {name}")
    good = all(outcome in ("passed", "skipped") for outcome in outcomes.values())
    say("verdict: " + ("every promise that was judged held" if good else "see above; not all held"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
