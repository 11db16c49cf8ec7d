"""Translate the errors of AWS's clients, boto3 and aiobotocore, into ours.

They retry a request by themselves and report only the last failure. So "Connection refused" may
follow an attempt that took effect and whose response was lost. Hence each attempt is recorded: only
if every one of them failed before it was sent, nothing has happened.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import (
    Denied,
    FencelockError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
    UsageError,
)

__all__ = ["answer_of", "code_of", "watch", "watched"]

# Failures in which no request was sent, by name: this module does not load botocore. They are its
# own, and those of urllib3 and aiohttp below it: aiobotocore raises EndpointConnectionError for a
# connection that was reset after the request, too.
_UNSENT = {
    *("ConnectTimeoutError", "ProxyConnectionError", "SSLError"),
    *("NewConnectionError", "ClientConnectorError", "gaierror"),
}
_NO_IDENTITY = {"NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError"}
_NO_ANSWER = {
    "ConnectionClosedError",
    "EndpointConnectionError",
    "HTTPClientError",
    "ReadTimeoutError",
    "ResponseStreamingError",
}

_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_ABSENT = {"NoSuchBucket", "ResourceNotFoundException"}
_LATER = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "SlowDown",
    "ThrottlingException",
    "TransactionConflictException",
    "TransactionInProgressException",
}
_SERVER_ERROR = 500
_READS = ("Get", "Head", "List")

_doubt: ContextVar[list[bool] | None] = ContextVar("fencelock_doubt", default=None)


def watch(client: Any) -> None:
    """Register ``_note`` for each attempt of a client. A second call changes nothing."""
    if not hasattr(getattr(client, "meta", None), "service_model"):
        raise UsageError(f"this guard takes a client of boto3 or aiobotocore, not {client!r:.200}")
    service = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register_first(  # before botocore's own handler, which may raise
        f"needs-retry.{service}", _note, unique_id="fencelock-guard"
    )


def _note(operation: Any, response: Any = None, caught_exception: Any = None, **_: Any) -> None:
    """Record whether an attempt may have taken effect; botocore calls this after each of them."""
    doubts = _doubt.get()
    if doubts is not None and not operation.name.startswith(_READS):
        status = 0 if response is None else response[0].status_code
        sent = caught_exception is not None and _names(caught_exception).isdisjoint(_UNSENT)
        doubts.append(sent or status >= _SERVER_ERROR)


@contextmanager
def watched(what: str) -> Generator[None]:
    """Map the errors of a request to ours; those that the caller has to handle pass unchanged."""
    doubts = list[bool]()
    token = _doubt.set(doubts)
    try:
        yield
    except Exception as error:
        mapped = _map_error(error, what, any(doubts))
        if mapped is None:
            raise
        raise mapped from error
    finally:
        _doubt.reset(token)


def _map_error(error: Exception, what: str, doubt: bool) -> FencelockError | None:
    names, code = _names(error), code_of(error)
    if code in _DENIED or names & _NO_IDENTITY:
        return Denied(f"{what} could not be used, and nothing was done: {error}")
    if code in _ABSENT:
        return Misconfigured(f"{what} is not there, so nothing was done: {error}")
    failed = bool(names & (_UNSENT | _NO_ANSWER)) or code in _LATER
    failed = failed or (doubt and isinstance(error, Unavailable))  # a retry loop of ours gave up
    status = answer_of(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if not failed and status < _SERVER_ERROR:
        return None
    if doubt:
        return OutcomeUnknown(
            f"{what} did not answer ({error}): the change may have taken effect; read before you "
            "repeat it"
        )
    return Unavailable(f"{what} cannot be reached or cannot serve now; nothing was done ({error})")


def code_of(error: Exception) -> str:
    """Return the code of an error response of the service; empty for any other error."""
    return str(answer_of(error).get("Error", {}).get("Code", ""))


def answer_of(error: Exception) -> dict[str, Any]:
    """Return the service's response to which an error belongs; empty if there is none."""
    found: dict[str, Any] | None = getattr(error, "response", None)
    return found or {}  # transport errors have the attribute, too, as None


def _names(error: BaseException) -> set[str]:
    """Return the names of an error's classes, and of those of the error that it wraps."""
    below = getattr(error, "kwargs", {}).get("error")
    return {kind.__name__ for kind in (*type(error).__mro__, *type(below).__mro__)}
