"""Send requests to the agents of a datacenter, and map their errors: one table.

Consul answers most failures with 500 and a sentence. Few of the sentences prove that nothing was
done; after the others the outcome of a write is unknown. A read that was not answered has changed
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ...errors import Denied, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from ...model import shown
from ...world import World
from .._http.nodes import Nodes, Purpose
from .._http.wire.connection import Node
from .._http.wire.http1 import Response
from .pairs import Operation, Pair, path_of, read_pair
from .settings import VARIABLE, Settings

T = TypeVar("T")
OK, FORBIDDEN, MISSING, CONFLICT, TOO_MANY, FAILED = 200, 403, 404, 409, 429, 500
WAIT_S = 20.0  # the wait of a blocking query; an agent adds up to a sixteenth
OPERATIONS_MAX = 64  # of a transaction
TEXT_MAX = 300
NO_LEADER = "no server leads: a majority of the servers has to run"

_DENIED = (
    f"the token may not do that: give one by token=, or {VARIABLE}, whose policy has write for "
    "key_prefix and session_prefix"
)
_UNDONE = {
    "No cluster leader": NO_LEADER,
    "rate limit": "the agent limits the rate of requests: send fewer, or raise its limit",
    "No known Consul servers": "the agent knows no server: see whether it has joined",
}
_WRONG = {"Invalid Session TTL": "set session_ttl_min to what that of the servers is"}


class Refused(NamedTuple):
    """The errors of a transaction that was rolled back, by the index of the operation."""

    why: dict[int, str]

    def says(self, sign: str) -> bool:
        return any(sign in what for what in self.why.values())


class Agents:
    """Sends requests to the agents of one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._token = settings.token
        self._timeout = settings.request_timeout
        addresses, tls, connect_timeout = settings.nodes, settings.tls, settings.connect_timeout
        self.nodes = Nodes(
            world,
            addresses,
            tls,
            connect_timeout,
            settings.pool,
            self._headers,
            lambda response: response.status >= FAILED or response.status == TOO_MANY,
            lambda response: bool(_undone(response)),
        )

    def _headers(self, node: Node) -> tuple[tuple[str, str], ...]:
        headers = (("host", node.where), ("user-agent", "fencelock"))
        return headers if self._token is None else (*headers, ("x-consul-token", self._token))

    async def get(self, target: str, read: Callable[[Any], T]) -> T | None:
        """Send a GET and decode its reply; None if there is nothing."""
        return await self._read(target, read, self._timeout, "calls")

    async def find(self, key: str) -> Pair | None:
        """Read a key in consistent mode; None if it does not exist."""
        return await self.get(f"{path_of(key)}?consistent", _first)

    async def changed(self, key: str, index: int) -> int:
        """Wait until a key's index differs, or WAIT_S; return the index, 0 if the key is gone."""
        target, timeout = f"{path_of(key)}?index={index}&wait={WAIT_S:g}s", WAIT_S * 17 / 16
        found = await self._read(target, _first, timeout + self._timeout, "polls")
        return 0 if found is None else found.modify_index

    async def put(self, target: str, body: object = None) -> Any:
        """Send a PUT and return its reply; None if the target does not exist."""
        return self._answer(await self._send("PUT", target, body, self._timeout), _same)

    async def renew(self, session: str) -> bool:
        """Renew a session; return whether it exists. Without a reply, it may have been renewed."""
        target = f"/v1/session/renew/{session}"
        response = await self._send("PUT", target, None, self._timeout, "renewals")
        return self._answer(response, _same) is not None

    async def transact(
        self, *operations: Operation, purpose: Purpose = "calls"
    ) -> list[Pair] | Refused:
        """Send a transaction; return the keys that were written, or why it was rolled back."""
        response = await self._send("PUT", "/v1/txn?consistent", operations, self._timeout, purpose)
        if response.status == CONFLICT and b"Permission denied" not in response.body:
            return _understood(response, _refused)
        return self._answer(response, _written) or []

    async def check(self, checks: Sequence[Operation]) -> set[int]:
        """Return the indexes of the checks that fail, as verified by the leader with a majority."""
        try:
            done = await self.transact(*checks, purpose="renewals")
        except OutcomeUnknown as error:
            raise _unasked(error) from error
        return {*done.why} if isinstance(done, Refused) else set()

    async def _read(
        self, target: str, read: Callable[[Any], T], timeout: float, purpose: Purpose
    ) -> T | None:
        try:
            return self._answer(await self._send("GET", target, None, timeout, purpose), read)
        except OutcomeUnknown as error:
            raise _unasked(error) from error

    def _answer(self, response: Response, read: Callable[[Any], T]) -> T | None:
        if response.status == MISSING:
            return None
        if response.status != OK:
            raise _mapped(response)
        return _understood(response, read)

    async def _send(
        self, method: str, target: str, body: object, timeout: float, purpose: Purpose = "calls"
    ) -> Response:
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        return await self.nodes.send(method, target, data, timeout, purpose)


def _undone(response: Response) -> str:
    """Return advice if a reply proves that nothing was done, so that another agent may be tried."""
    said = response.body[:TEXT_MAX].decode(errors="replace")
    busy = _UNDONE["rate limit"] if response.status == TOO_MANY else ""
    return next((text for sign, text in _UNDONE.items() if sign in said), busy)


def _mapped(response: Response) -> FencelockError:
    """Return our error for a reply that is not a success."""
    said = shown(response.body[:TEXT_MAX].decode(errors="replace").strip())
    told = f"{response.where} ({response.status}: {said})"
    if response.status == FORBIDDEN or "Permission denied" in said or "ACL not found" in said:
        return Denied(f"{told}: {_DENIED}; nothing happened")
    if advice := _undone(response):
        return Unavailable(f"{told}: {advice}; nothing happened")
    if advice := next((text for sign, text in _WRONG.items() if sign in said), ""):
        return Misconfigured(f"{told}: {advice}; nothing happened")
    if response.status < FAILED:
        return Misconfigured(
            f"{told} refuses the request, and nothing happened: see whether the URL leads to the "
            "HTTP port of an agent of Consul"
        )
    return OutcomeUnknown(f"{told}: the change may have taken effect")


def _unasked(error: OutcomeUnknown) -> Unavailable:
    return Unavailable(f"{error}; the request only reads, so nothing changed")


def _understood(response: Response, read: Callable[[Any], T]) -> T:
    try:
        return read(json.loads(response.body))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise OutcomeUnknown(
            f"{response.where} does not answer as an agent of Consul; the change may have "
            "taken effect: see whether the URL leads to one"
        ) from error


def _same(found: Any) -> Any:
    return found


def _first(found: Any) -> Pair:
    return read_pair(found[0])


def _written(found: Any) -> list[Pair]:
    return [read_pair(one["KV"]) for one in found["Results"] or ()]


def _refused(found: Any) -> Refused:
    return Refused({int(one["OpIndex"]): str(one["What"]) for one in found["Errors"]})
