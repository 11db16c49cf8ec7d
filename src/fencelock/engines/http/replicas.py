"""Send calls to the nodes of a service, which are replicas, and read their replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import urlencode

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...world import World
from .._http.nodes import Nodes, Purpose
from .._http.wire.connection import Node
from .._http.wire.http1 import Response
from .errors import body_of, mapped, not_a_service, problem_of, unreadable
from .settings import Settings, token_of

T = TypeVar("T")
Reader: TypeAlias = Callable[[dict[str, Any]], T]
"""Decodes the members of a reply; an error in it means that the reply cannot be decoded."""
SCHEMA = 1
FAILED, UNSUPPORTED, CANNOT_SERVE = 500, 501, 503


class Replicas:
    """The nodes of one service."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._settings = settings
        self._nodes = Nodes(
            world,
            settings.nodes,
            settings.tls,
            settings.connect_timeout,
            settings.pool,
            self._headers,
            _has_failed,
            _nothing_happened,
        )

    def _headers(self, node: Node) -> tuple[tuple[str, str], ...]:
        headers = (
            ("host", node.where),
            ("user-agent", "fencelock"),
            ("fencelock-undelivered", "keep"),  # the owner retries, perhaps at another node
            ("fencelock-names", "exact"),  # names are compared byte by byte, whatever the engine
        )
        token = token_of(self._settings)
        return headers if token is None else (*headers, ("authorization", f"Bearer {token}"))

    async def get(self, verb: str, read: Reader[T], query: Mapping[str, str] | None = None) -> T:
        """Send a GET, which changes nothing, even without a reply."""
        target = f"{verb}?{urlencode(query)}" if query else verb
        return await self._look("GET", target, None, read, self._settings.request_timeout, "calls")

    async def about(self, read: Reader[T]) -> T:
        """Read what the service reports about itself; Misconfigured if it is not a lock service."""
        timeout = self._settings.request_timeout
        return await self._look("GET", "about", None, read, timeout, "calls", not_a_service)

    async def look(self, verb: str, body: object, read: Reader[T], hold: float = 0.0) -> T:
        """Send a call that changes nothing, and that the node may hold for ``hold`` seconds."""
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
            raise Unavailable(f"{error}; the request only reads, so nothing changed") from error

    async def call(
        self,
        verb: str,
        body: object,
        read: Reader[T],
        timeout: float | None = None,
        purpose: Purpose = "calls",
    ) -> T:
        """Send a call that changes something, and return its decoded reply."""
        seconds = self._settings.request_timeout if timeout is None else timeout
        return self.read(await self.send("POST", verb, body, seconds, purpose), read)

    def read(
        self,
        response: Response,
        read: Reader[T],
        garbled: Callable[[str], FencelockError] = unreadable,
    ) -> T:
        """Decode a reply; raise its error if it is not a success."""
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
        """Send a call to a node, and return its response."""
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        target = f"{self._settings.path}/v1/{verb}"
        return await self._nodes.send(method, target, data, timeout, purpose)

    def close_polls(self) -> None:
        """End all polls, and refuse new ones."""
        self._nodes.close_polls()

    def close(self) -> None:
        """Close all connections."""
        self._nodes.close()


def _has_failed(response: Response) -> bool:
    return response.status >= FAILED and response.status != UNSUPPORTED


def _nothing_happened(response: Response) -> bool:
    kind, problem = problem_of(response)
    is_sure = bool(kind) and problem.get("may_have_happened") is False
    return is_sure and response.status == CANNOT_SERVE
