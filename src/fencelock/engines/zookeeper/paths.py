"""Where a lock lives in the tree, and in which order its contenders stand.

A lock is a folder, a contender is a child of it: ``<uuid>__lock__<sequence>``, as kazoo writes it,
or ``_c_<uuid>-lock-<sequence>``, as Curator does. All kinds are read, so that all stand in one
queue.

A name is a path below the root, so that other programs find it: ``jobs/nightly`` is the folder
``<root>/jobs/nightly``. What ZooKeeper or this layout would misread is percent-encoded, in each
segment by itself, and no name leads out of the root. ``%`` with anything but two digits behind it
is never part of an encoded name: such nodes are ours.

Read/write locks and semaphores lie in folders of that kind, each name as one segment: Curator takes
every child of a lock for a contender, so no name may lie within another. Their nodes have Curator's
names: ``_c_<uuid>-__READ__<sequence>`` and ``_c_<uuid>-__WRIT__<sequence>`` in the folder of a
read/write lock; ``lock-`` nodes in ``locks`` and ``lease-`` nodes in ``leases`` of a semaphore,
with the limit and the slot before that word.

A node that another client has taken over has the id of that client's session in its name, behind
the uuid. So one name never stands for nodes of two sessions: whoever finds a node under the name
that it knows finds it in the session that it knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote, unquote

from ...model import Share

SEGMENTS_MAX = 8  # deeper names keep their slashes encoded in the last segment
PLAIN = " !\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~"
EMPTY = "%"  # an empty segment, as in a//b
REVOKED = "%revoked"
MEMORY = "%memory"
KINDS = {"rwlock": "%rwlock", "semaphore": "%semaphore"}
OURS = {REVOKED, MEMORY, *KINDS.values()}
LOCKS, LEASES = "locks", "leases"
SYSTEM = "zookeeper"  # the server's own folder at the top of the tree

_CONTENDER = re.compile(r"(?:__r?lock__|lock-|__READ__|__WRIT__)(-?\d{10})$")
_CONTENDER_MAX = 20  # no match is longer: a long name is searched at its end only
NUMBER_MAX = 2**31 - 1
HASH_DIGITS = 32  # of an owner, at the beginning of its node
CURATOR = "_c_"
READ, WRITE = "__READ__", "__WRIT__"
_READERS = (READ, "__rlock__")
_SLOT = re.compile(r"-(\d+)-of-(\d+)-lease-")
_SESSION = re.compile(r"[0-9a-f]{16}-?")
_LIMIT = re.compile(r"-of-(\d+)-(?:lock|lease)-")


class Location(NamedTuple):
    """Where an owner's node is made, and how its name begins."""

    folder: str
    prefix: str
    """What tells it from the nodes of all others."""
    label: str = ""
    """What stands between that and the number that the server appends."""
    leases: str = ""
    """The folder to which it goes when it has a slot of a semaphore."""


def encode(name: str) -> str:
    """Return the path of a name below the root, without a slash in front."""
    first, *others = name.split("/", SEGMENTS_MAX - 1)
    segments = [segment(first), *map(segment, others)]
    if segments[0] == SYSTEM:
        segments[0] = _escape_last(SYSTEM)
    return "/".join(segments)


def decode(path: str) -> str:
    """Return the name of a path below the root."""
    return "/".join("" if segment == EMPTY else unquote(segment) for segment in path.split("/"))


def segment(text: str) -> str:
    """Return a text as the name of one node."""
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
    guid = sha256(owner.encode()).hexdigest()[:HASH_DIGITS]
    return _curator(guid) if recipe == "curator" else guid


def beginnings(owner: str) -> tuple[str, ...]:
    """Return how an owner's node may begin, whichever recipe its client was told to use."""
    return protected(owner, "kazoo"), protected(owner, "curator")


def in_session(child: str, prefix: str, session: int) -> str:
    """Return the name that a node has once it lives with a session that has not made it."""
    rest = child[len(prefix) :]
    if found := _SESSION.match(rest):
        rest = rest[found.end() :]
    end = "-" if prefix.startswith(CURATOR) else ""
    return f"{prefix}{session % 2**64:016x}{end}{rest}"


def location(root: str, name: str, owner: str, recipe: str, share: Share | None) -> Location:
    """Return where the node of an owner is made, for a lock or a share of a name."""
    if share is None:
        label = "lock-" if recipe == "curator" else "__lock__"
        return Location(f"{root}/{encode(name)}", protected(owner, recipe), label)
    folder = f"{root}/{KINDS[share.kind]}/{segment(name)}"
    prefix = protected(owner, "curator")
    if share.kind == "semaphore":
        label = f"of-{share.limit}-lock-"
        return Location(f"{folder}/{LOCKS}", prefix, label, f"{folder}/{LEASES}")
    return Location(folder, prefix, WRITE if share.units == share.limit else READ)


def _curator(guid: str) -> str:
    """Return a guid as Curator puts it before the names of its nodes."""
    parts = (guid[:8], guid[8:12], guid[12:16], guid[16:20], guid[20:])
    return f"{CURATOR}{'-'.join(parts)}-"


def sequence(child: str) -> int | None:
    """Return the number that the server gave to a contender, or None for any other node."""
    found = _CONTENDER.search(child, max(0, len(child) - _CONTENDER_MAX))
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


def is_reader(child: str) -> bool:
    """Whether a contender shares its lock with other readers."""
    return child[:-10].rstrip("-").endswith(_READERS)


def blocker(order: list[str], position: int) -> int:
    """Return whom a contender waits for: a reader for the last writer before it, a writer for
    whoever is before it; -1 when there is none, and it holds the lock."""
    before = position - 1
    if is_reader(order[position]):
        while before >= 0 and is_reader(order[before]):
            before -= 1
    return before


def holders(order: list[str]) -> int:
    """Return how many of the first contenders hold the lock: one, or all readers at the head."""
    count = next((i for i, child in enumerate(order) if not is_reader(child)), len(order))
    return count or min(len(order), 1)


def downgraded(child: str) -> str:
    """Return the name that a writer's node has once it only reads: its number stays, as it does
    with Curator, so that it stands before all who wait."""
    return READ.join(child.rsplit(WRITE, 1))


def lease(child: str, slot: int) -> str:
    """Return the name that a node in the queue of a semaphore has once it has a slot."""
    before, _, behind = child.rpartition("of-")
    limit, _, number = behind.partition("-lock-")
    return f"{before}{slot}-of-{limit}-lease-{number}"


def slot(child: str) -> int | None:
    """Return the slot of a lease; None for another program's, which has none."""
    found = _SLOT.search(child)
    return int(found[1]) if found else None


def lease_key(child: str) -> tuple[int, str]:
    """Return what leases are shown in the order of: their slots, then those that have none."""
    number = slot(child)
    return (NUMBER_MAX if number is None else number, child)


def limit(child: str) -> int | None:
    """Return the limit that the user of a semaphore knows; None for another program's."""
    found = _LIMIT.search(child)
    return int(found[1]) if found else None


def free_slot(leases: list[str], most: int) -> int | None:
    """Return the lowest free slot; None when all are taken, by leases without a slot, too."""
    if len(leases) >= most:
        return None
    taken = set(map(slot, leases))
    return next(number for number in range(most) if number not in taken)


def held_share(share: Share | None, child: str) -> Share | None:
    """Return which share a node holds."""
    if share is None:
        return None
    if share.kind == "semaphore":
        return share._replace(slot=slot(child))
    return share._replace(units=1 if is_reader(child) else share.limit)
