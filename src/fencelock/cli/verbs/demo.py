"""``fencelock demo``: run ``python -m fencelock.demo`` as a program of its own."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from .. import codes, terminal


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--unsafe", action="store_true", help="let the store ignore the fence")


def main(options: argparse.Namespace) -> int:
    """Run the demo; with --json its story goes to stderr and the verdict to stdout."""
    command = [sys.executable, "-m", "fencelock.demo"]
    if options.unsafe:
        command.append("--unsafe")
    if not options.json:
        sys.stdout.flush()
        os.execv(sys.executable, command)
    import json
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="fencelock-demo-") as folder:
        verdict = os.path.join(folder, "verdict.json")
        code = subprocess.run([*command, "--json", verdict], stdout=2, check=False).returncode
        if os.path.exists(verdict):
            with open(verdict, encoding="utf-8") as file:
                terminal.emit(json.load(file))
    return code if code >= 0 else codes.SIGNALLED - code
