"""``fencelock leader NAME``: who leads, and in which epoch."""

from __future__ import annotations

import argparse

from .. import codes, terminal
from ..acquisition import who
from ..clock import brief
from ..listing import holding_facts
from ..options import connected, name_of

EPILOG = f"Exit code {codes.DECLINED}: nobody leads."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the election")


def main(options: argparse.Namespace) -> int:
    """Show who leads."""
    name = name_of(options.name)
    with connected(options) as client:
        leader, url = client.election(name).leader(), client.url
    if options.json:
        facts = None if leader is None else holding_facts(leader)
        terminal.emit({"url": url, "name": name, "leader": facts})
    elif leader is None:
        terminal.say(f"nobody leads {terminal.fitting(name)}")
    else:
        led_by = terminal.fitting(who(leader.meta))
        terminal.out(f"{led_by} leads for {brief(leader.age)}, fence {leader.fence}")
    return codes.DECLINED if leader is None else codes.OK
