"""``fencelock ls [PREFIX]``: the locks that are held."""

from __future__ import annotations

import argparse

from .. import codes, terminal
from ..listing import holding_facts, holdings_table
from ..options import connected, prefix_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "prefix", metavar="PREFIX", nargs="?", default="", help="only names that begin with this"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="names only, one per line")


def main(options: argparse.Namespace) -> int:
    """List what is held."""
    prefix = prefix_of(options.prefix)
    with connected(options) as client:
        holdings = client.scan(prefix)
        if options.json:
            locks = [holding_facts(holding) for holding in holdings]
            terminal.emit({"url": client.url, "prefix": prefix, "locks": locks})
        elif options.quiet:
            for name in dict.fromkeys(holding.name for holding in holdings):
                terminal.out(name)
        elif holdings:
            terminal.lines(holdings_table(holdings))
        else:
            which = f"no lock whose name begins with {prefix!r}" if prefix else "no lock"
            terminal.say(f"{which} is held at {client.url}")
    return codes.OK
