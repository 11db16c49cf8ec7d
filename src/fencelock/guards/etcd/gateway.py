"""Send requests to etcd's JSON gateway, which every member serves on its client port.

It is for programs without a client of etcd. Each call has a connection of its own: a kept one that
has died meanwhile would leave the outcome of the next call unknown.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ...errors import Denied, Misconfigured, OutcomeUnknown, Unavailable, UsageError

__all__ = ["Gateway"]

PORT = 2379
_BUSY = 429  # the gateway's status for RESOURCE_EXHAUSTED: refused before anything was done


class Gateway:
    """Sends requests to the members. It can be called from several threads."""

    def __init__(
        self,
        endpoints: str | Sequence[str],
        *,
        timeout: float,
        headers: Mapping[str, str],
        context: ssl.SSLContext | None,
    ) -> None:
        given = [endpoints] if isinstance(endpoints, str) else list(endpoints)
        if not given:
            raise UsageError("a guard for etcd needs the address of at least one member")
        self._members = [_address(each) for each in given]
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json", **headers}
        self._context = context

    def __call__(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """POST a request and return the reply; a member that cannot be reached is skipped."""
        why = ""
        for member in self._members:
            connection = self._connection(*member)
            try:
                connection.connect()
            except OSError as error:
                why = f"{member[1]}:{member[2]}: {error}"
                connection.close()
                continue
            try:
                connection.request("POST", path, json.dumps(body), self._headers)
                reply = connection.getresponse()
                return _read(reply.status, reply.read())
            except (OSError, http.client.HTTPException) as error:
                raise OutcomeUnknown(
                    f"etcd at {member[1]}:{member[2]} did not answer ({error!r}): the transaction "
                    "may have taken effect; read before you repeat it"
                ) from error
            finally:
                connection.close()
        raise Unavailable(f"no member of etcd can be reached, so nothing was done ({why})")

    def _connection(self, secure: bool, host: str, port: int) -> http.client.HTTPConnection:
        if secure:
            return http.client.HTTPSConnection(
                host, port, timeout=self._timeout, context=self._context
            )
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


def _address(endpoint: str) -> tuple[bool, str, int]:
    parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{endpoint!r} is no address of etcd, such as http://127.0.0.1:{PORT}")
    return parts.scheme == "https", parts.hostname, parts.port or PORT


def _read(status: int, body: bytes) -> dict[str, Any]:
    if status == http.client.OK:
        answer: dict[str, Any] = json.loads(body)
        return answer
    said = body.decode(errors="replace").strip()[:300]
    if status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
        raise Denied(f"etcd refused access, so nothing was done: {said}")
    if status == _BUSY:
        raise Unavailable(f"etcd has no room for it, so nothing was done: {said}")
    if status < http.client.INTERNAL_SERVER_ERROR:
        raise Misconfigured(f"etcd refused the request, so nothing was done ({status}: {said})")
    raise OutcomeUnknown(
        f"etcd had no leader or gave up ({status}: {said}): the transaction may have taken effect; "
        "read before you repeat it"
    )
