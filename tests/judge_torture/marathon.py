"""``fencelock torture`` over every engine that the tests can start: half of `make torture`.

    python -m tests.judge_torture.marathon --seconds 20 --only redis

It stops by itself: each engine has its share of the time. What a run needs and is not installed is
left out, with its reason. It ends with 1 when a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.engines import STORES
from tests.servers.mariadb import mariadb
from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.server import Missing
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper

AFTER_S = 120.0  # to come to rest, to judge, and to stop

PLACES: dict[str, Callable[[Path], str]] = {
    **{name: store.fresh for name, store in STORES.items() if name not in ("memory", "zookeeper")},
    "postgresql mode=advisory": lambda _: shared(Postgresql).url("mode=advisory"),
    "postgresql mode=row": lambda _: shared(Postgresql).url("mode=row"),
    "mysql mode=advisory": lambda _: f"{shared(mariadb).url()}?mode=advisory",
    "mysql mode=row": lambda _: f"{shared(mariadb).url()}?mode=row",
    "zookeeper": lambda _: shared(ZooKeeper).fresh_url(),  # its session follows the ttl
    "redis beside redis-py": lambda _: shared(Redis).fresh_url(),
}


def run(name: str, url: str, options: argparse.Namespace) -> dict[str, Any]:
    """One torture in a process of its own."""
    words = ["--seconds", str(options.seconds), "--seed", str(options.seed), "--json"]
    words += ["--clients", str(options.clients), "--ttl", str(options.ttl)]
    if name.endswith("redis-py"):
        words += ["--library", "redis-py"]
    ran = subprocess.run(
        [sys.executable, "-m", "fencelock", "torture", url, *words],
        capture_output=True,
        text=True,
        timeout=2 * options.seconds + AFTER_S,
        check=False,
    )
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.judge_torture.marathon")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each engine")
    parser.add_argument("--clients", type=int, default=5)
    parser.add_argument("--ttl", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="engines whose name has this in it")
    parser.add_argument("--json", type=Path, help="write all figures there, one object per line")
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory(prefix="fencelock-marathon-") as folder:
        for name, place in PLACES.items():
            if options.only not in name:
                continue
            try:
                facts = run(name, place(Path(folder)), options)
            except Missing as missing:
                sys.stdout.write(f"{name:<26} skipped: {missing}\n")
                continue
            good = good and facts.get("passed", False)
            lines = [line(name, facts)]
            if facts.get("comparison"):
                lines.append(line("  redis-py", facts["comparison"]))
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps({"engine": name, **facts}) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
