"""``fencelock lab``: scenarios of locks that go wrong, on a page, listed, played, or exported."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ... import lab, observe
from ...errors import UsageError
from .. import codes, terminal
from ..codes import BadArguments
from ..options import number_of

USAGE = """fencelock lab [DOC|LINK] [--port PORT] [--no-browser]
       fencelock lab ls [--json]
       fencelock lab play DOC [--set SWITCH=CHOICE ...] [--json]
       fencelock lab export DOC [-o FILE] [--set SWITCH=CHOICE ...] [--json]"""
EPILOG = """
Without ls, play or export, the page is served on this machine alone, until Ctrl-C ends it. An
exported file holds the page and its plays: it needs neither a server nor a network.

examples:
  fencelock lab
  fencelock lab ghost-writer
  fencelock lab play ghost-writer
  fencelock lab play ghost-writer --set "fence=no guard" --json > trace.json
  fencelock lab play my-scenario.json
  fencelock lab export ghost-writer -o ghost.html
"""
DOCUMENT_MAX = 1_000_000  # bytes
FIRST = "ghost-writer"
"""The scenario that the page shows if none is named."""


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "action",
        metavar="DOC|LINK|ls|play|export",
        nargs="?",
        help="what the page shows first, a document or a link; or list, play, export",
    )
    add("document", metavar="DOC", nargs="?", help="a scenario, a JSON file, or - for stdin")
    add(
        "--set",
        metavar="SWITCH=CHOICE",
        action="append",
        default=[],
        help="set a switch of the document; the others are at their first choice",
    )
    add("-o", "--output", metavar="FILE", help="the file of an export (default: DOC.html)")
    add("--port", type=number_of(0, 65535), help="the port of the page (default: a free one)")
    add("--no-browser", action="store_true", help="open no browser")


def main(options: argparse.Namespace) -> int:
    """List, play or serve; 80 is the exit code of a play that came out otherwise than expected."""
    if options.output is not None and options.action != "export":
        raise BadArguments("-o is for export")
    if options.action not in ("ls", "play", "export"):
        return _serve(options)
    if options.port is not None or options.no_browser:
        raise BadArguments("--port and --no-browser are for the page: leave ls and play out")
    if options.action == "ls":
        if options.document is not None or options.set:
            raise BadArguments("ls takes neither a document nor --set")
        return _list(options.json)
    if options.document is None:
        raise BadArguments(f"{options.action} needs a scenario (fencelock lab ls) or a JSON file")
    observe.redirect(_unsaid)  # the trace has the warnings of simulated clients
    if options.action == "export":
        return _export(options)
    document = lab.chosen(_document(options.document), **_switches(options.set))
    trace = lab.play(document)
    differences = trace.differences()
    if options.json:
        terminal.emit(trace.data)
    else:
        terminal.lines([terminal.fitting(line) for line in _told(trace)])
    for difference in differences:
        terminal.say(f"it came out otherwise than the document expects: {difference}")
    return codes.BROKEN if differences else codes.OK


def _serve(options: argparse.Namespace) -> int:
    """Serve the page until a signal ends it."""
    from ...lab.page import PageServer

    if options.document is not None:
        raise BadArguments(
            f"{options.action!r} is not an action: use ls, play or export, or give one DOC"
        )
    if options.set:
        raise BadArguments("--set is for play and export: the page has its switches as buttons")
    observe.redirect(_unsaid)
    scenarios = {name: lab.scenario(name) for name in lab.scenarios()}
    first, fragment = options.action or FIRST, ""
    if "#" in first and not Path(first).is_file():
        fragment = first[first.index("#") :]  # a link; the part before # is another lab's address
        first = FIRST
    if first not in scenarios:
        scenarios[first] = _document(first)
        lab.play(scenarios[first])  # or report now what is wrong with it
    try:
        server = PageServer(options.port or 0, scenarios, first)
    except OSError as error:
        raise UsageError(
            f"port {options.port or 'of the page'} cannot be used: {error.strerror or error}. "
            "Without --port, a free one is taken"
        ) from None
    with server:
        url = server.url + fragment
        if options.json:
            terminal.emit({"event": "listening", "url": url})
        else:
            terminal.out(f"the lab is at {url} (Ctrl-C ends it)")
        sys.stdout.flush()
        if not options.no_browser:
            import webbrowser

            webbrowser.open(url)
        server.serve_forever()
    return codes.OK


def _export(options: argparse.Namespace) -> int:
    """Write the page with its plays as one file."""
    name = "" if options.document == "-" else Path(options.document).name
    path = Path(options.output or f"{Path(name or 'document').stem}.html")
    lab.export(_document(options.document), path, name=name, **_switches(options.set))
    size = path.stat().st_size
    if options.json:
        terminal.emit({"event": "exported", "path": str(path), "bytes": size})
    else:
        terminal.out(f"{path} has {size // 1000} kB: open it in a browser")
    return codes.OK


def _unsaid(message: str) -> None:
    """Discard a message."""


def _list(as_json: bool) -> int:
    found = {name: lab.scenario(name) for name in lab.scenarios()}
    if as_json:
        terminal.emit({"scenarios": [_facts(name, raw) for name, raw in found.items()]})
        return codes.OK
    width = max(map(len, found))
    rows: list[str] = []
    for name, raw in found.items():
        rows.append(f"{name:<{width}}  {raw['title']}")
        for switch, choices in raw.get("switches", {}).items():
            rows.append(f"{'':<{width}}    {switch}: {', '.join(choices)}")
    terminal.lines([terminal.fitting(row) for row in rows])
    return codes.OK


def _facts(name: str, raw: dict[str, Any]) -> dict[str, Any]:
    switches = {switch: list(choices) for switch, choices in raw.get("switches", {}).items()}
    return {"name": name, "title": raw["title"], "about": raw["about"], "switches": switches}


def _document(name: str) -> dict[str, Any]:
    """Return a scenario of the package, or read a document from a file or stdin."""
    if name in lab.scenarios():
        return lab.scenario(name)
    if name != "-" and not Path(name).is_file():
        known = ", ".join(lab.scenarios())
        raise UsageError(f"{name!r} is neither a file nor a scenario; the scenarios are {known}")
    try:
        if name == "-":
            text = sys.stdin.read(DOCUMENT_MAX + 1)
        else:
            with open(name, encoding="utf-8") as file:
                text = file.read(DOCUMENT_MAX + 1)
        if len(text) > DOCUMENT_MAX:
            raise UsageError(f"{name}: a document has {DOCUMENT_MAX} characters at the most")
        found: Any = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}, line {error.lineno}: this is not JSON ({error.msg})") from error
    except RecursionError:
        raise UsageError(f"{name}: this is nested too deeply") from None
    if not isinstance(found, dict):
        raise UsageError(f"{name}: a document is an object with names and values")
    return found  # pyright: ignore[reportUnknownVariableType]


def _switches(words: list[str]) -> dict[str, str]:
    switches: dict[str, str] = {}
    for word in words:
        name, equals, choice = word.partition("=")
        if not equals:
            raise BadArguments(f"--set takes SWITCH=CHOICE, not {word!r}")
        switches[name] = choice
    return switches


def _told(trace: lab.Trace) -> list[str]:
    rows = [f"{one['at']:9.3f}  {one['lane']:<10} {one['words']}" for one in trace.data["events"]]
    rows.append("")
    for ruling in trace.verdict:
        rows.append(f"{ruling['outcome']:>10}  {ruling['question']}")
        rows += [f"{'':>12}{one['at']:.3f} s: {one['words']}" for one in ruling["violations"]]
    return [*rows, f"{'register':>10}  {trace.outcome['register'] or 'nothing'}"]
