"""``python -m fencelock.testing.conformance URL``: check whether an engine keeps its promises."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from traceback import format_exception

from ...errors import FencelockError
from .check import FLAVORS
from .runner import Report, checks, run_all


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks, print a table, and return 0 if none failed, 1 if some did, 2 if misused."""
    options = _parser().parse_args(arguments)
    if options.list:
        for check in checks():
            _say(f"{check.name}\n    {check.promise}")
        return 0
    if options.url is None:
        _say("which engine? Name its URL, as in sqlite:////tmp/locks.db or memory://")
        return 2
    logging.getLogger("fencelock").addHandler(logging.NullHandler())  # losing leases is the point
    try:
        report = run_all(
            lambda: options.url,
            flavors=[options.flavor] if options.flavor else FLAVORS,
            only=options.check or None,
            tell=lambda result: _say(str(result)),
        )
    except FencelockError as error:  # a name that no check has
        _say(str(error))
        return 2
    _say(report.summary)
    _explain(report)
    return 0 if report.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fencelock.testing.conformance",
        description="See whether an engine keeps the promises of fencelock.",
    )
    parser.add_argument("url", nargs="?", help="the engine, as for fencelock.connect()")
    parser.add_argument("--flavor", choices=FLAVORS, help="one flavor only")
    parser.add_argument("--check", action="append", metavar="NAME", help="this check only; repeat")
    parser.add_argument("--list", action="store_true", help="say what is checked")
    return parser


def _explain(report: Report) -> None:
    for result in report.failed:
        _say(f"\n{result.check.name} ({result.flavor}): {result.check.promise}")
        if result.error is not None:
            _say("".join(format_exception(result.error)).rstrip())


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
