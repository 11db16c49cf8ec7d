"""Send the fence with a request, and raise StaleFence if a guard refused it."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from ...errors import StaleFence, UsageError
from ..fence import Claim, Fenced, claim, name_of
from .problem import STALE
from .rules import NAME, ROLE, TOKEN

if TYPE_CHECKING:
    import httpx
    import requests

__all__ = ["RequestsAuth", "fencing_headers", "httpx_auth", "raise_if_stale"]

_ANY = "\x00"  # stands for a missing name; no lock can have it


def fencing_headers(
    lease: Fenced | int, *, name: str | None = None, reading: bool = False
) -> dict[str, str]:
    """Return the headers of a request under a lease: ``Fencing-Token`` and ``Fencing-Name``.

    And ``Fencing-Role: read`` for a read lock; for a bare fence, ``reading`` says so.
    """
    return _headers(_claim(lease, name, reading))


def raise_if_stale(
    status: int, body: bytes | str, lease: Fenced | int, *, name: str | None = None
) -> None:
    """Raise StaleFence if this is the response of a guard that refused the fence."""
    if status == 412:
        known = lease if isinstance(lease, int) else lease.fence  # even if it has ended by now
        _raise(body, _claim(known, name if isinstance(lease, int) else name or name_of(lease)))


class RequestsAuth:
    """For requests: ``requests.put(url, ..., auth=RequestsAuth(lease))``."""

    def __init__(
        self, lease: Fenced | int, *, name: str | None = None, reading: bool = False
    ) -> None:
        self._told = (lease, name, reading)
        self._claim = _claim(*self._told)

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(_headers(_claim(*self._told)))  # it may be over now
        request.register_hook("response", self._look)  # type: ignore[no-untyped-call]
        return request

    def _look(self, response: requests.Response, **_: Any) -> None:
        if response.status_code == 412:
            _raise(response.content, self._claim)


def httpx_auth(
    lease: Fenced | int, *, name: str | None = None, reading: bool = False
) -> httpx.Auth:
    """For httpx, of either flavor: ``client.put(url, ..., auth=httpx_auth(lease))``."""
    try:
        import httpx
    except ImportError:
        raise UsageError("httpx is not installed: pip install httpx") from None
    theirs = _claim(lease, name, reading)

    class FencingAuth(httpx.Auth):
        requires_response_body = True

        def auth_flow(
            self, request: httpx.Request
        ) -> Generator[httpx.Request, httpx.Response, None]:
            request.headers.update(_headers(_claim(lease, name, reading)))  # it may be over now
            response = yield request
            if response.status_code == 412:
                _raise(response.content, theirs)

    return FencingAuth()


def _claim(lease: Fenced | int, name: str | None, reading: bool = False) -> Claim:
    if name is None and isinstance(lease, int):
        return claim(lease, _ANY, reading=reading, guard="http_client")._replace(name="")
    return claim(lease, name, reading=reading, guard="http_client")


def _headers(theirs: Claim) -> dict[str, str]:
    headers = {TOKEN: str(theirs.fence)}
    if theirs.name:
        headers[NAME] = quote(theirs.name, safe="")
    if theirs.reading:
        headers[ROLE] = "read"
    return headers


def _raise(body: bytes | str, theirs: Claim) -> None:
    """Raise StaleFence if the body is a guard's: other preconditions fail with 412, too."""
    try:
        document = json.loads(body)
        kind, highest = document["type"], int(document["highest"])
    except (ValueError, TypeError, KeyError):
        return
    if kind == STALE:
        seen: Literal["read", "write"] = "read" if document.get("seen") == "read" else "write"
        theirs.emit_stale()
        raise StaleFence(name=theirs.name, offered=theirs.fence, highest=highest, seen=seen)
