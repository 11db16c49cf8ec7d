"""Where a lock lives in the tree, and in which order its contenders stand.

A lock is a folder, a contender is a child of it: ``<uuid>__lock__<sequence>``, as kazoo writes it,
or ``_c_<uuid>-lock-<sequence>``, as Curator does. All kinds are read, so that all stand in one
queue.

A name is a path below the root, so that other programs find it: ``jobs/nightly`` is the folder
``<root>/jobs/nightly``. What ZooKeeper or this layout would misread is percent-encoded, in each
segment by itself, and no name leads out of the root. ``%`` with anything but two digits behind it
is never part of an encoded name: such nodes are ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from urllib.parse import quote, unquote

SEGMENTS_MAX = 8  # deeper names keep their slashes encoded in the last segment
PLAIN = " !\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~"
EMPTY = "%"  # an empty segment, as in a//b
REVOKED = "%revoked"
SYSTEM = "zookeeper"  # the server's own folder at the top of the tree

_CONTENDER = re.compile(r"(?:__r?lock__|lock-|__READ__|__WRIT__)(-?\d{10})$")
NUMBER_MAX = 2**31 - 1
CURATOR = "_c_"


def encode(name: str) -> str:
    """Return the path of a name below the root, without a slash in front."""
    first, *others = name.split("/", SEGMENTS_MAX - 1)
    segments = [_segment(first), *map(_segment, others)]
    if segments[0] == SYSTEM:
        segments[0] = _escape_last(SYSTEM)
    return "/".join(segments)


def decode(path: str) -> str:
    """Return the name of a path below the root."""
    return "/".join("" if segment == EMPTY else unquote(segment) for segment in path.split("/"))


def _segment(text: str) -> str:
    if text in ("", ".", ".."):
        return "%2E" * len(text) or EMPTY
    encoded = quote(text, safe=PLAIN)
    return _escape_last(encoded) if _CONTENDER.search(encoded) else encoded


def _escape_last(text: str) -> str:
    return f"{text[:-1]}%{ord(text[-1]):02X}"


def protected(owner: str, recipe: str) -> str:
    """Return how an owner's node begins, to find it when the reply to its creation was lost.

    Whoever may list the nodes sees it, so it is a hash: the owner id itself is the right to
    release.
    """
    guid = sha256(owner.encode()).hexdigest()[:32]
    if recipe == "curator":
        parts = (guid[:8], guid[8:12], guid[12:16], guid[16:20], guid[20:])
        return f"{CURATOR}{'-'.join(parts)}-lock-"
    return f"{guid}__lock__"


def sequence(child: str) -> int | None:
    """Return the number that the server gave to a contender, or None for any other node."""
    found = _CONTENDER.search(child)
    return int(found[1]) if found else None


def contenders(children: Iterable[str]) -> list[str]:
    """Sort all contenders by number: that is the order of arrival unless the numbers are spent."""
    numbered = [(number, child) for child in children if (number := sequence(child)) is not None]
    return [child for _, child in sorted(numbered)]


def is_spent(order: list[str]) -> bool:
    """Whether the numbers of a folder have come to their end, and tell nothing any more.

    They have 31 bits. Real servers then stop counting and give the last number again and again, or
    a negative one now and then: only the czxid tells who came first.
    """
    if not order:
        return False
    first, *last = [sequence(child) or 0 for child in (order[0], *order[-2:])]
    return first < 0 or last == [NUMBER_MAX, NUMBER_MAX]
