"""Measure fencelock beside its peers: `python -m bench [WORK …]`, from the repository's root."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import harness, report
from bench.contestant import Contestant
from bench.work import Work


def main(arguments: Sequence[str] | None = None) -> int:
    works = {kind.name: kind() for kind in harness.works()}
    options = _parser(list(works)).parse_args(arguments)
    chosen: list[Work] = [works[name] for name in options.works or works]
    results: list[harness.Result] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for work in chosen:
            contestants = [
                kind
                for kind in harness.contestants()
                if work.name in kind.works and _wanted(kind, options.only)
            ]
            if not contestants:
                continue  # whoever was asked for does not take part in it
            rounds = options.rounds or (work.rounds_quick if options.quick else work.rounds)
            results.append(harness.run(work, contestants, Path(folder), rounds, options.quick))
            print(report.table(results[-1], options.quick), flush=True)
            print(flush=True)
    if options.json:
        text = json.dumps(report.document(results, options.quick), indent=2)
        Path(options.json).write_text(text + "\n")
    return 1 if any(result.failed for result in results) else 0


def _wanted(kind: type[Contestant], only: list[str]) -> bool:
    return not only or any(part in kind.name or part in kind.field for part in only)


def _parser(works: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "works", nargs="*", metavar="WORK", type=_one_of(works), help=", ".join(works)
    )
    parser.add_argument(
        "--rounds", type=_count, metavar="N", help="visit every contestant so often"
    )
    parser.add_argument("--quick", action="store_true", help="a glance: few rounds, small counts")
    parser.add_argument("--json", metavar="FILE", help="write all figures there too")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only contestants whose name or field contains this; may be given again",
    )
    return parser


def _one_of(works: list[str]) -> Callable[[str], str]:
    def work(text: str) -> str:
        if text not in works:
            raise argparse.ArgumentTypeError(f"there is no work {text!r}, but {', '.join(works)}")
        return text

    return work


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"rounds are 1 or more, not {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
