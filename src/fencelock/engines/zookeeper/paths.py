"""The paths of locks in the tree, and the names and the order of their contenders.

A lock is a parent node, called its folder here, and each contender is a child of it:
``<uuid>__lock__<sequence>``, as kazoo writes it, or ``_c_<uuid>-lock-<sequence>``, as Curator does.
All of these names are recognized, so that all contenders form one queue.

A name is a path below the root, so that other programs find it: ``jobs/nightly`` is the folder
``<root>/jobs/nightly``. What ZooKeeper or this layout would misread is percent-encoded, segment by
segment, and no name leads out of the root. ``%`` followed by anything but two hex digits is never
part of an encoded name: nodes with such names are our own.

Read/write locks and semaphores have a folder for each kind, with each name as one segment: Curator
takes every child of a lock for a contender, so no name may be below another. Their nodes have
Curator's names: ``_c_<uuid>-__READ__<sequence>`` and ``_c_<uuid>-__WRIT__<sequence>`` in the folder
of a read/write lock; ``lock-`` nodes in ``locks`` and ``lease-`` nodes in ``leases`` of a
semaphore, with the limit and, in a lease, the slot before that word.

A node that another client has taken over has the id of that client's session in its name, after the
uuid. So the nodes of two sessions never have the same name: a client that finds a node under a name
it knows finds it in the session it knows.
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
EMPTY = "%"  # for an empty segment, as in a//b
REVOKED = "%revoked"
MEMORY = "%memory"
KINDS = {"rwlock": "%rwlock", "semaphore": "%semaphore"}
OURS = {REVOKED, MEMORY, *KINDS.values()}
LOCKS, LEASES = "locks", "leases"
SYSTEM = "zookeeper"  # the server's own node at the top of the tree

_CONTENDER = re.compile(r"(?:__r?lock__|lock-|__READ__|__WRIT__)(-?\d{10})$")
_CONTENDER_MAX = 20  # no match is longer: only the end of a long name is searched
NUMBER_MAX = 2**31 - 1
HASH_DIGITS = 32  # of the hash of an owner, at the start of its node's name
CURATOR = "_c_"
READ, WRITE = "__READ__", "__WRIT__"
_READERS = (READ, "__rlock__")
_SLOT = re.compile(r"-(\d+)-of-(\d+)-lease-")
_SESSION = re.compile(r"[0-9a-f]{16}-?")
_LIMIT = re.compile(r"-of-(\d+)-(?:lock|lease)-")


class Location(NamedTuple):
    """Where an owner's node is created, and how its name begins."""

    folder: str
    prefix: str
    """The start of the name, which distinguishes the node from those of all other owners."""
    label: str = ""
    """The part between the prefix and the sequence number that the server appends."""
    leases: str = ""
    """The folder to which the node moves when it gets a slot of a semaphore."""


def encode(name: str) -> str:
    """Return the path of a name relative to the root."""
    first, *others = name.split("/", SEGMENTS_MAX - 1)
    segments = [segment(first), *map(segment, others)]
    if segments[0] == SYSTEM:
        segments[0] = _escape_last(SYSTEM)
    return "/".join(segments)


def decode(path: str) -> str:
    """Return the name that belongs to a path relative to the root."""
    return "/".join("" if segment == EMPTY else unquote(segment) for segment in path.split("/"))


def segment(text: str) -> str:
    """Encode a text as the name of one node."""
    if text in ("", ".", ".."):
        return "%2E" * len(text) or EMPTY
    encoded = quote(text, safe=PLAIN)
    return _escape_last(encoded) if _CONTENDER.search(encoded) else encoded


def _escape_last(text: str) -> str:
    return f"{text[:-1]}%{ord(text[-1]):02X}"


def protected(owner: str, recipe: str) -> str:
    """Return the prefix of an owner's node, to find it when the reply to its creation was lost.

    Every client that may list the nodes sees it, so it is a hash: the owner id itself gives the
    right to release.
    """
    guid = sha256(owner.encode()).hexdigest()[:HASH_DIGITS]
    return _curator(guid) if recipe == "curator" else guid


def beginnings(owner: str) -> tuple[str, ...]:
    """Return the possible prefixes of an owner's node, one for each ``recipe`` option."""
    return protected(owner, "kazoo"), protected(owner, "curator")


def in_session(child: str, prefix: str, session: int) -> str:
    """Return the new name of a node that is moved to a session other than its creator's."""
    rest = child[len(prefix) :]
    if found := _SESSION.match(rest):
        rest = rest[found.end() :]
    end = "-" if prefix.startswith(CURATOR) else ""
    return f"{prefix}{session % 2**64:016x}{end}{rest}"


def location(root: str, name: str, owner: str, recipe: str, share: Share | None) -> Location:
    """Return where the node of an owner is created, for a mutex or a share of a name."""
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
    """Format a guid as Curator's prefix of protected nodes."""
    parts = (guid[:8], guid[8:12], guid[12:16], guid[16:20], guid[20:])
    return f"{CURATOR}{'-'.join(parts)}-"


def sequence(child: str) -> int | None:
    """Return the sequence number of a contender, or None for any other node."""
    found = _CONTENDER.search(child, max(0, len(child) - _CONTENDER_MAX))
    return int(found[1]) if found else None


def contenders(children: Iterable[str]) -> list[str]:
    """Return the contenders by sequence number: in order of arrival unless those are spent."""
    numbered = [(number, child) for child in children if (number := sequence(child)) is not None]
    return [child for _, child in sorted(numbered)]


def is_spent(order: list[str]) -> bool:
    """Return whether the sequence numbers of a folder are used up, and no longer give an order.

    They have 31 bits. Real servers then stop counting and give the last number again and again, or
    a negative one now and then: only the czxid tells who came first.
    """
    if not order:
        return False
    first, *last = [sequence(child) or 0 for child in (order[0], *order[-2:])]
    return first < 0 or last == [NUMBER_MAX, NUMBER_MAX]


def is_reader(child: str) -> bool:
    """Return whether a contender is a reader."""
    return child[:-10].rstrip("-").endswith(_READERS)


def blocker(order: list[str], position: int) -> int:
    """Return the index of the contender to wait for; -1 if there is none, and ``position`` holds.

    A reader waits for the last writer before it, a writer for the contender right before it.
    """
    before = position - 1
    if is_reader(order[position]):
        while before >= 0 and is_reader(order[before]):
            before -= 1
    return before


def holders(order: list[str]) -> int:
    """Count the contenders that hold the lock: the first one, or all readers at the head."""
    count = next((i for i, child in enumerate(order) if not is_reader(child)), len(order))
    return count or min(len(order), 1)


def downgraded(child: str) -> str:
    """Return the new name of a writer's node that is downgraded to a reader.

    The sequence number stays, as it does with Curator, so that the node is before all waiters.
    """
    return READ.join(child.rsplit(WRITE, 1))


def lease(child: str, slot: int) -> str:
    """Return the new name of a node that moves from a semaphore's queue to a slot."""
    before, _, behind = child.rpartition("of-")
    limit, _, number = behind.partition("-lock-")
    return f"{before}{slot}-of-{limit}-lease-{number}"


def slot(child: str) -> int | None:
    """Return the slot of a lease; None for a lease of another program, which has none."""
    found = _SLOT.search(child)
    return int(found[1]) if found else None


def lease_key(child: str) -> tuple[int, str]:
    """Return the sort key of leases: by slot, then those without a slot."""
    number = slot(child)
    return (NUMBER_MAX if number is None else number, child)


def limit(child: str) -> int | None:
    """Return the limit in the name of a semaphore's node; None for another program's."""
    found = _LIMIT.search(child)
    return int(found[1]) if found else None


def free_slot(leases: list[str], most: int) -> int | None:
    """Return the lowest free slot; None if all are taken. Leases without a slot count, too."""
    if len(leases) >= most:
        return None
    taken = set(map(slot, leases))
    return next(number for number in range(most) if number not in taken)


def held_share(share: Share | None, child: str) -> Share | None:
    """Return the share that a node stands for."""
    if share is None:
        return None
    if share.kind == "semaphore":
        return share._replace(slot=slot(child))
    return share._replace(units=1 if is_reader(child) else share.limit)
