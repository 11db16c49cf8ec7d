"""``fencelock schema ENGINE``: the tables that an engine needs in a database, for a migration."""

from __future__ import annotations

import argparse
from importlib import import_module

from ...errors import Misconfigured
from .. import codes, terminal

ENGINES = ("mysql", "postgresql", "spanner")


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("engine", metavar="ENGINE", choices=ENGINES, help=", ".join(ENGINES))
    add(
        "--table",
        metavar="NAME",
        default="fencelock",
        help="what the tables' names begin with (default fencelock)",
    )
    add("--schema", metavar="NAME", help="the schema they lie in (postgresql; default public)")


def main(options: argparse.Namespace) -> int:
    """Print the statements without connecting to anything."""
    tables = import_module(f"fencelock.engines.{options.engine}.tables")
    if options.schema and options.engine != "postgresql":
        raise Misconfigured(f"{options.engine} has no schemas beside databases: leave --schema out")
    where = [options.schema] if options.schema else []
    text: str = tables.schema(options.table, *where)
    if options.json:
        terminal.emit({"engine": options.engine, "table": options.table, "sql": text})
    else:
        terminal.lines(text.splitlines())
    return codes.OK
