"""The keys of one lock: all in one slot of a cluster, whatever the name looks like.

The lock itself is the key that the user named, so that other programs can lock the same one. Our
own keys lie beside it, under the same hash tag. A cluster hashes what stands between the first
``{`` and the next ``}``, if anything does, and otherwise the whole key:

* a name with a hash tag of its own keeps it, and its side keys begin otherwise than those of
  others;
* a name without ``}`` becomes the hash tag of its side keys;
* any other name (``a}{b``, ``{}x``) cannot be a hash tag, so it is written with its braces encoded,
  under a prefix that no plain name may have.

No lock has a key under which another keeps something. A name that could be a side key or a guard's
mark is encoded as well: one that begins with ``fencelock:``, or looks like ``{x}:fencelock``.

The keys for a semaphore, for a read/write lock, for observers and for what is remembered lie beside
the record as well: they are its key and one more word. No such word contains ``:fencelock``, so
that no two names have the same key, and none of these keys is that of a lock.
"""

from __future__ import annotations

from typing import NamedTuple

ENCODED = "fencelock%"  # begins the key of a name that is encoded
OURS = "fencelock:"  # begins the side keys of names with a hash tag, and the marks of a RedisGuard
SIDE = ":fencelock"
MARKS = "mark:~"  # a tagged name that begins so would have a guard's mark as its record
DECLARED = 3
KINDS = ("semaphore", "rwlock")  # of names that several can hold

_ENCODE = {"%": "%25", "{": "%7B", "}": "%7D"}


class Keys(NamedTuple):
    """The keys of one name."""

    lock: str
    """A string: the owner, with the lease as its time to live."""
    record: str
    """A string: the fence of the last grant and its owner. It outlives the lock for a while."""
    queue: str
    """A sorted set: owners that wait, by the order in which they came."""
    waiters: str
    """A hash: the request of each owner that waits, and when its client was last seen."""

    @property
    def declared(self) -> tuple[str, ...]:
        """The keys that a script gets. It derives the one of the waiters, which has its slot."""
        return self[:DECLARED]


def keys_of(name: str, prefix: str = "") -> Keys:
    """Return the keys of a name. The caller should cache those that it uses again and again."""
    return beside(lock_of(name, prefix))


def lock_of(name: str, prefix: str = "") -> str:
    """Return the key of the lock itself."""
    lock = prefix + name
    if "}" in lock or lock.startswith((ENCODED, OURS)):
        lock = _standing(lock)
    return lock


def record_of(lock: str) -> str:
    """Return the key of the record that belongs to the key of a lock."""
    return (f"{OURS}{lock}" if "}" in lock else f"{{{lock}}}") + SIDE


def beside(lock: str) -> Keys:
    """Return the keys that belong to the key of a lock."""
    record = record_of(lock)
    return Keys(lock, record, record + ":queue", record + ":waiters")


def holders_of(lock: str, kind: str) -> str:
    """Return the key of the holders of a semaphore or a read/write lock of this name."""
    return f"{record_of(lock)}:{kind}"


def observers_of(lock: str) -> str:
    """Return the key of the observers of a name."""
    return record_of(lock) + ":observers"


def remembered_of(lock: str) -> str:
    """Return the key of the numbers that are remembered for a name."""
    return record_of(lock) + ":remembered"


def part_of(key: str) -> str:
    """Return the word by which a key extends its record, ``semaphore`` say; empty for a lock.

    The key of a lock neither begins with ``fencelock:`` nor looks like ``{x}:fencelock``.
    """
    if key.startswith(OURS) or (key[:1] == "{" and key.startswith(SIDE, key.find("}") + 1)):
        return key.rpartition(":")[2]
    return ""


def found_by(key: str, prefix: str = "") -> tuple[str, str] | None:
    """Return the name and kind whose record or holders have this key; None for any other key."""
    kind = key.rpartition(":")[2]
    record = key.removesuffix(f":{kind}") if kind in KINDS else key
    name = name_of(record, prefix)
    return None if name is None else (name, kind if kind in KINDS else "lock")


def name_of(record: str, prefix: str = "") -> str | None:
    """Return the name whose record has this key; None where the key is not a lock's record."""
    lock = record.removesuffix(SIDE)
    lock = lock[1:-1] if lock.startswith("{") else lock.removeprefix(OURS)
    if lock.startswith(ENCODED):
        lock = lock.removeprefix(ENCODED)
        for letter, code in reversed(_ENCODE.items()):  # the percent sign last
            lock = lock.replace(code, letter)
    name = lock.removeprefix(prefix)
    return name if lock.startswith(prefix) and keys_of(name, prefix).record == record else None


def pattern(prefix: str) -> str:
    """Return a pattern for SCAN that matches at least the records of all names with a prefix."""
    if "{" in prefix or "}" in prefix:
        return f"*{SIDE}"
    literal = "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in prefix)
    return f"*{literal.replace('%', '%*')}*{SIDE}"  # a percent sign may be encoded


def _standing(lock: str) -> str:
    start = lock.find("{")
    end = lock.find("}", start)
    has_tag = 0 <= start < end - 1
    reserved = lock.startswith((ENCODED, OURS, MARKS)) or (
        start == 0 and lock.startswith(SIDE, end + 1)
    )
    if has_tag and not reserved:
        return lock
    return ENCODED + "".join(_ENCODE.get(letter, letter) for letter in lock)
