"""Decide whether a request is guarded, and by which fence: by method, path and headers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from ...errors import UsageError
from ..fence import FENCE_MAX
from . import problem
from .problem import Problem

TOKEN = "Fencing-Token"
TOKEN_OTHER = "X-Fencing-Token"
NAME = "Fencing-Name"
ROLE = "Fencing-Role"
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
HOLD_TIMEOUT_S = 30.0

_DIGITS_MAX = len(str(FENCE_MAX))


def may_have_acted(status: int) -> bool:
    """Return whether an application that responds so may have acted on the request.

    A redirection or a client error means that it has not: unauthorized clients get 401, 403 or a
    redirection to the login, and must not be able to raise a mark. After a server error that is
    unknown, except for those that mean that it did not try.
    """
    return status // 100 not in (3, 4) and status not in (501, 503)


class Token(NamedTuple):
    """The fence of a request, and whether it is a read lock's."""

    fence: int
    reading: bool = False


class Rules(NamedTuple):
    """Which requests are guarded, and how."""

    methods: frozenset[str] | None
    """The methods that need a fence; None: all that are not safe."""
    reads: bool
    """Whether other requests with a fence are checked, too, and raise the mark."""
    match_name: bool
    """Whether the fence must be of a lock with the resource's own name."""
    hold: bool
    hold_timeout: float

    def wants(self, method: str) -> bool:
        """Return whether requests with this method need a fence."""
        return method not in SAFE if self.methods is None else method in self.methods

    def read(
        self,
        method: str,
        tokens: Sequence[str],
        names: Sequence[str],
        roles: Sequence[str],
        key: str,
    ) -> Token | Problem | None:
        """Return the fence of a request, why it is refused, or None if it is not guarded."""
        needed = self.wants(method)
        if not needed and not (self.reads and tokens):
            return None
        if not tokens:
            return problem.missing(TOKEN)
        if len(tokens) > 1:
            return problem.malformed(f"One fence is enough: {TOKEN} was given {len(tokens)} times.")
        fence = _number(tokens[0])
        if fence is None:
            return problem.malformed(f"A fence is a decimal integer from 1 to {FENCE_MAX}.")
        if self.match_name and [unquote(name) for name in names] != [key]:
            return problem.malformed(
                f"The fence must be of the lock of this very resource, named in {NAME}: the fences "
                "of different locks cannot be compared."
            )
        reading = [role.strip(" \t").lower() for role in roles] == ["read"]
        if reading and needed:
            return problem.malformed(
                f"The fence is that of a read lock, as {ROLE} says, and {method} needs one that "
                "may write: acquire the lock for writing."
            )
        return Token(fence, reading)


def make_rules(
    methods: Collection[str] | None,
    reads: bool,
    match_name: bool,
    hold: bool,
    hold_timeout: float,
) -> Rules:
    """Make the rules from the options of a middleware, after checking them."""
    if isinstance(methods, str):
        raise UsageError(f"methods is a collection of names, not the text {methods!r}")
    if isinstance(hold_timeout, bool) or not 0 < hold_timeout < 1e9:
        raise UsageError(f"hold_timeout is a number of seconds above 0, not {hold_timeout!r}")
    chosen = None if methods is None else frozenset(method.upper() for method in methods)
    return Rules(chosen, reads, match_name, hold, hold_timeout)


def _number(text: str) -> int | None:
    digits = text.strip(" \t")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX):
        return None
    return number if 0 < (number := int(digits)) <= FENCE_MAX else None
