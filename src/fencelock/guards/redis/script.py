"""The scripts of the Redis guard, with the check before the guarded operation, and their keys.

The check is on the first line of the script, without a line of its own, so that the line numbers in
errors are those of the guarded script.
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


@lru_cache(maxsize=200)  # programs have few scripts, and reuse them
def guarded(body: str, reading: bool = False) -> Script:
    """Return the script with the check of a writer, or of a reader, before it."""
    first, rest = "", body
    if body.startswith("#!"):  # the shebang of the script must stay its first line
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
    """Return a prefix without braces, so that the hash tag is in the name."""
    if not isinstance(prefix, str) or not prefix or "{" in prefix or "}" in prefix:
        raise UsageError(f"a prefix is text without braces, not {prefix!r}")
    return prefix


def checked_ttl(ttl: object) -> str:
    """Return the time to keep a mark as the script's argument: in milliseconds, 0 for forever."""
    if ttl is None:
        return "0"
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 1 <= ttl < 2**40:
        raise UsageError(f"marks_ttl is at least one second, or None, not {ttl!r}")
    return str(int(ttl * 1000))


@lru_cache(maxsize=300)
def key_of(prefix: str, name: str) -> str:
    """Return the key of a name's mark: in a cluster, in the slot of the name.

    A cluster hashes the text between the first ``{`` and the next ``}``. A name with such a tag
    keeps it; else the whole name becomes the tag, so that the mark is in the slot of a key of that
    name. A name that cannot be a tag, such as ``a}{b``, is encoded. The character after the prefix
    differs in the three cases, so no two names share a key.
    """
    start = name.find("{")
    if start >= 0 and name.find("}", start) > start + 1:
        return f"{prefix}~{name}"
    if "}" in name:
        return f"{prefix}%{{{''.join(_ENCODE.get(letter, letter) for letter in name)}}}"
    return f"{prefix}{{{name}}}"


def pattern(prefix: str) -> str:
    """Return the pattern that matches the keys of all marks."""
    return "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in prefix) + "[~%{]*"
