"""``fencelock token NAME``: a token for one identity of a lock service, and what to configure."""

from __future__ import annotations

import argparse
import re
import secrets

from .. import codes, terminal
from ..codes import BadArguments

EPILOG = """\
The token is printed once and kept nowhere. The lines below it belong into fencelock.toml, which
holds only a digest of the token.
"""
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="who gets the token")


def main(options: argparse.Namespace) -> int:
    """Make a token and print it."""
    from hashlib import sha256

    if not NAME.fullmatch(options.name):
        raise BadArguments("the name of an identity has 1 to 64 of A-Z a-z 0-9 . _ -")
    token = secrets.token_urlsafe(32)
    digest = f"sha256:{sha256(token.encode()).hexdigest()}"
    if options.json:
        terminal.emit({"name": options.name, "token": token, "digest": digest})
        return codes.OK
    terminal.out(token)
    terminal.out("")
    terminal.out("[[identity]]")
    terminal.out(f'name = "{options.name}"')
    terminal.out(f'tokens = ["{digest}"]')
    terminal.out(f'allow = [{{ prefix = "{options.name}", verbs = ["acquire", "observe"] }}]')
    return codes.OK
