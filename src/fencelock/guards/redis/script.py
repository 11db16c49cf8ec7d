"""The scripts of the Redis guard, with the check in front of what is guarded, and their keys.

The check stands on the first line of the script, without a line of its own, so that the numbers of
lines in errors of the guarded script are those that its author knows.
"""

from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from hashlib import sha1
from typing import NamedTuple

from ...errors import UsageError

STALE = "STALEFENCE "

GET = "return redis.call('GET', KEYS[1])"
SET = "return redis.call('SET', KEYS[1], unpack(ARGV))"
ENTER = "return 1"

_ENCODE = {"%": "%25", "{": "%7B", "}": "%7D"}


class Script(NamedTuple):
    """One script, known to the server by its digest."""

    source: str
    digest: str


@lru_cache(maxsize=200)  # programs have few scripts, and use them again and again
def guarded(body: str, reading: bool = False) -> Script:
    """The script with the check of a writer, or of a reader, in front."""
    first, rest = "", body
    if body.startswith("#!"):  # says how to run the script, and must stay its first line
        first, _, rest = body.partition("\n")
        first += "\n"
    return _script(f"{first}{_check('check_read' if reading else 'check')} {rest}")


@cache
def forgetting() -> Script:
    return _script(_read("forget"))


@cache
def setting() -> Script:
    return _script(_read("reset"))


def _script(source: str) -> Script:
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest())


@cache
def _check(name: str) -> str:
    lines = [re.sub(r"\s*--.*", "", line).strip() for line in _read(name).splitlines()]
    return " ".join(line for line in lines if line)


def _read(name: str) -> str:
    path = os.path.join(os.path.dirname(__file__), f"{name}.lua")
    with open(path, encoding="utf-8") as file:
        return file.read()


def checked_prefix(prefix: object) -> str:
    """A prefix that leaves the hash tag to the name."""
    if not isinstance(prefix, str) or not prefix or "{" in prefix or "}" in prefix:
        raise UsageError(f"a prefix is text without braces, not {prefix!r}")
    return prefix


def checked_ttl(ttl: object) -> str:
    """How long a mark is kept, as the script wants it: in milliseconds, 0 for ever."""
    if ttl is None:
        return "0"
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 1 <= ttl < 2**40:
        raise UsageError(f"marks_ttl is at least one second, or None, not {ttl!r}")
    return str(int(ttl * 1000))


@lru_cache(maxsize=300)
def key_of(prefix: str, name: str) -> str:
    """The key of a name's mark: in a cluster, in the slot of the name.

    A cluster hashes what stands between the first ``{`` and the next ``}``. A name that brings such
    a tag keeps it; else the whole name is the tag, which is where a key of just that name is, too.
    A name that can be no tag, such as ``a}{b``, is encoded. What follows the prefix differs in the
    three, so no two names share a key.
    """
    start = name.find("{")
    if start >= 0 and name.find("}", start) > start + 1:
        return f"{prefix}~{name}"
    if "}" in name:
        return f"{prefix}%{{{''.join(_ENCODE.get(letter, letter) for letter in name)}}}"
    return f"{prefix}{{{name}}}"


def pattern(prefix: str) -> str:
    """What matches the keys of all marks."""
    return "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in prefix) + "[~%{]*"
