"""A call and its answer between the layers of the service, once its bytes are read."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from .._client.validation import check_name
from ..world import Signal
from .access import Identity, Verb
from .problems import Problem


class Call:
    """One request, between the layers.

    ``gone`` is set, and ``wake`` with it, when the client has disconnected: a handler that waits
    ends then. Handlers are not cancelled, so no reply of the engine is ever thrown away unread.
    """

    __slots__ = (
        "exact",
        "gone",
        "identity",
        "last_event",
        "owners",
        "peer",
        "query",
        "received_at",
        "resolves",
        "taken_over",
        "wake",
    )

    def __init__(
        self,
        identity: Identity,
        peer: str,
        query: Mapping[str, str],
        received_at: float,
        wake: Signal,
        *,
        exact: bool = False,
        resolves: bool = False,
        last_event: str = "",
    ) -> None:
        self.identity = identity
        self.resolves = resolves
        """The client sends a call without an answer again, to another node perhaps: nothing is
        given back behind its back."""
        self.exact = exact
        """Names are meant byte for byte, even those that are not in Unicode's normal form C."""
        self.peer = peer
        self.query = query
        self.received_at = received_at
        self.wake = wake
        self.last_event = last_event
        """The id of the last event that the client has, if it reconnects; else empty."""
        self.gone = False
        self.owners: set[str] = set()
        """Owners for which this call sends requests to the engine."""
        self.taken_over: set[str] = set()
        """Owners that a newer call with the same id has taken over: it may hold their locks."""

    def hang_up(self) -> None:
        """Note that the client is gone, and wake the handler."""
        self.gone = True
        self.wake.set()


class Answer(NamedTuple):
    """The answer of a handler."""

    body: object
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    undelivered: Callable[[], Coroutine[Any, Any, None]] | None = None
    """Is run if the client is gone before the answer could be handed over."""
    stream: AsyncGenerator[bytes, None] | None = None
    """Is sent piece by piece, in place of a body."""


def demand(call: Call, verb: Verb, name: str) -> str:
    """Return a name that may be used so, or refuse: in the same way whether it exists or not."""
    check_name(name)
    if not call.exact and not unicodedata.is_normalized("NFC", name):
        raise Problem(
            "invalid",
            "A name must be in Unicode's normal form C; a program that means it byte for byte "
            "sends `Fencelock-Names: exact`",
        )
    if not call.identity.may(verb, name):
        raise Problem("forbidden")
    return name
