"""``fencelock revoke NAME --reason TEXT``: take a lock from its holder, who is told why."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..._client.validation import check_reason
from ...model import Holding, State
from .. import codes, terminal
from ..acquisition import held_by
from ..codes import BadArguments
from ..listing import holding_facts
from ..options import connected, name_of

if TYPE_CHECKING:
    from ...sync import Client

EPILOG = """\
The holder learns of it at its next renewal at the latest; what it writes until then only a check
of the fence at the resource can refuse. The next fence is higher.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="the lock")
    add("--reason", metavar="TEXT", required=True, help="what the holder is told")
    add("--yes", action="store_true", help="do not ask for confirmation")


def main(options: argparse.Namespace) -> int:
    """Revoke the lock after a confirmation."""
    name, reason = name_of(options.name), check_reason(options.reason)
    if not options.yes and not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadArguments("revoke asks before it acts, and nobody is there to answer: pass --yes")
    with connected(options) as client:
        holders = client.holders(name)
        if holders and not options.yes and not _agrees(State(name, tuple(holders))):
            terminal.say("nothing was revoked")
            return codes.DECLINED
        revoked = bool(holders) and client.revoke(name, reason)
        _tell(options.json, client, name, holders, revoked)
    return codes.OK


def _agrees(state: State) -> bool:
    question = f"{state.name!r} is {held_by(state)[0]}. Take it away? [y/N] "
    sys.stderr.write(terminal.printable(question, sys.stderr))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell(json: bool, client: Client, name: str, holders: list[Holding], revoked: bool) -> None:
    if json:
        facts = [holding_facts(holding) for holding in holders]
        terminal.emit({"url": client.url, "name": name, "revoked": revoked, "holders": facts})
    elif revoked:
        terminal.say(f"revoked {name!r}, which was {held_by(State(name, tuple(holders)))[0]}")
    else:
        terminal.say(f"nobody holds {name!r}")
