"""The four-letter word ``srvr``, sent to one server on a connection of its own."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from ....wires import tcp

REPLY_S = 2.0


class Member(NamedTuple):
    """The status of one server."""

    where: str
    mode: str = ""
    """standalone, leader, follower or observer; empty if it does not serve."""
    version: str = ""
    trouble: str = ""


def read_member(host: str, port: int) -> Member:
    """Send ``srvr`` to one member and read its reply."""
    where = f"{host}:{port}"
    try:
        with tcp.connect(host, port, time.monotonic() + REPLY_S) as connection:
            connection.settimeout(REPLY_S)
            connection.sendall(b"srvr")
            give_up, text = time.monotonic() + REPLY_S, b""
            while time.monotonic() < give_up and (part := connection.recv(4096)):
                text += part
    except OSError as error:
        return Member(where, trouble=f"cannot be reached ({error})")
    return parse_member(where, text.decode(errors="replace"))


def parse_member(where: str, text: str) -> Member:
    mode = re.search(r"^Mode: (\S+)", text, re.MULTILINE)
    version = re.search(r"version: (\d+\.\d+\.\d+)", text)
    if mode is None:
        said = text.strip().partition("\n")[0][:80] or "nothing"
        return Member(where, trouble=f"does not serve: it says {said!r}")
    return Member(where, mode[1], version[1] if version else "")
