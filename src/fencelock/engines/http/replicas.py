"""Send calls to the nodes of a service, which are replicas: one after the other, never two at once.

A call goes to the node that served the last one. If that cannot be reached, or says that nothing
happened because it cannot serve, the same call goes to the next node: it has not been served
before. A call of which that is not certain, because no answer came or the answer says so, is not
sent again, here: the caller asks again for the same owner, and that goes to the next node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, cast
from urllib.parse import urlencode

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...wires.tls import context_of
from ...world import World
from .._http.wire import connect_in
from .._http.wire.connection import Node
from .._http.wire.http1 import Response
from .._http.wire.pool import Pool
from .errors import body_of, mapped, not_a_service, problem_of, unreadable
from .settings import Settings, token_of

T = TypeVar("T")
Purpose: TypeAlias = Literal["calls", "renewals", "polls"]
Reader: TypeAlias = Callable[[dict[str, Any]], T]
"""Makes something of the members of an answer; an error in it means that it cannot be read."""
SCHEMA = 1
UNAUTHORIZED, FAILED, UNSUPPORTED, CANNOT_SERVE = 401, 500, 501, 503
POLLS_MAX = 64  # connections that wait for a change


class Replicas:
    """The nodes of one service."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._settings = settings
        context = None if settings.tls is None else context_of(settings.tls, "http/1.1")
        self._nodes = [Node(*one, context, settings.connect_timeout) for one in settings.nodes]
        connect, sizes = connect_in(world), {"calls": settings.pool, "renewals": 1}
        self._pools: dict[tuple[int, str], Pool] = {}
        for number, node in enumerate(self._nodes):
            for purpose in ("calls", "renewals", "polls"):
                size = sizes.get(purpose, POLLS_MAX)
                headers = partial(self._headers, node)
                self._pools[number, purpose] = Pool(world, connect, node, headers, size)
        self._current = 0
        """The node that serves, as far as is known."""

    def _headers(self, node: Node) -> tuple[tuple[str, str], ...]:
        headers = (
            ("host", node.where),
            ("user-agent", "fencelock"),
            ("fencelock-undelivered", "keep"),  # who was not told asks again, elsewhere perhaps
            ("fencelock-names", "exact"),  # ours are compared byte by byte, whatever the engine
        )
        token = token_of(self._settings)
        return headers if token is None else (*headers, ("authorization", f"Bearer {token}"))

    async def get(self, verb: str, read: Reader[T], query: Mapping[str, str] | None = None) -> T:
        """Read something; that no answer came changes nothing."""
        target = f"{verb}?{urlencode(query)}" if query else verb
        return await self._look("GET", target, None, read, self._settings.request_timeout, "calls")

    async def about(self, read: Reader[T]) -> T:
        """Have the service say what it is; what says something else is none."""
        timeout = self._settings.request_timeout
        return await self._look("GET", "about", None, read, timeout, "calls", not_a_service)

    async def look(self, verb: str, body: object, read: Reader[T], hold: float = 0.0) -> T:
        """Make a call that changes nothing, and may wait so long."""
        seconds, purpose = self._settings.request_timeout + hold, "polls" if hold else "calls"
        return await self._look("POST", verb, body, read, seconds, cast("Purpose", purpose))

    async def _look(
        self,
        method: str,
        verb: str,
        body: object,
        read: Reader[T],
        timeout: float,
        purpose: Purpose,
        garbled: Callable[[str], FencelockError] = unreadable,
    ) -> T:
        try:
            response = await self.send(method, verb, body, timeout, purpose)
            return self.read(response, read, garbled)
        except OutcomeUnknown as error:
            raise Unavailable(f"{error}; it was a question only, so nothing changed") from error

    async def call(
        self,
        verb: str,
        body: object,
        read: Reader[T],
        timeout: float | None = None,
        purpose: Purpose = "calls",
    ) -> T:
        """Make a call that changes something, and return what was answered."""
        seconds = self._settings.request_timeout if timeout is None else timeout
        return self.read(await self.send("POST", verb, body, seconds, purpose), read)

    def read(
        self,
        response: Response,
        read: Reader[T],
        garbled: Callable[[str], FencelockError] = unreadable,
    ) -> T:
        """Read an answer; raise what it says where it is no success."""
        if response.status not in (200, 202):
            raise mapped(response, response.where)
        found = body_of(response)
        try:
            if found["schema"] != SCHEMA:
                raise ValueError("another version")
            return read(found)
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise garbled(response.where) from error

    async def send(
        self, method: str, verb: str, body: object, timeout: float, purpose: Purpose
    ) -> Response:
        """Have a node answer: each is tried at most once, and only while nothing was done."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        target = f"{self._settings.path}/v1/{verb}"
        first, count = self._current, len(self._nodes)
        for turn in range(count):
            number, left = (first + turn) % count, count - 1 - turn
            pool = self._pools[number, purpose]
            try:
                response = await pool.call(method, target, data, timeout)
            except Unavailable:
                self._leave(number)
                if not left:
                    raise
                continue
            except OutcomeUnknown:
                self._leave(number)
                raise
            if response.status == UNAUTHORIZED:
                pool.renew()  # a token that was replaced is read with the next connection
            if response.status >= FAILED and response.status != UNSUPPORTED:
                self._leave(number)
                if left and response.status == CANNOT_SERVE and _nothing_happened(response):
                    continue
            return response._replace(where=pool.node.where)
        raise AssertionError("unreachable")

    def _leave(self, number: int) -> None:
        """Have the next call go to another node, unless one has been chosen meanwhile."""
        if self._current == number:
            self._current = (number + 1) % len(self._nodes)

    def close_polls(self) -> None:
        """End the polls: no more can be made."""
        for (_, purpose), pool in self._pools.items():
            if purpose == "polls":
                pool.close()

    def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            pool.close()


def _nothing_happened(response: Response) -> bool:
    kind, problem = problem_of(response)
    return bool(kind) and problem.get("may_have_happened") is False
