"""Map the errors of botocore and of DynamoDB to ours: one table.

The SDK's own retries are off, so that an error is about the only attempt. Where a condition failed
nothing has happened; where no reply came, or an internal error of DynamoDB, a write may have.
"""

from __future__ import annotations

from typing import Any

from ....errors import Denied, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from ..records import Item

# By name, since this loads no botocore: errors before any request was sent. They are those of
# urllib3 and aiohttp: aiobotocore raises EndpointConnectionError for a connection reset, too.
_UNSENT = {"ConnectTimeoutError", "NewConnectionError", "gaierror", "ClientConnectorError"}
_NO_IDENTITY = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}
_DENIED = {"AccessDenied", "ExpiredToken", "InvalidSignature", "UnrecognizedClient"}
_LATER = ("LimitExceeded", "ThroughputExceeded", "ResourceInUse", "Throttling")
_READS = ("describe", "get", "scan")
_SERVER_ERROR = 500


class Refused(Exception):
    """A condition did not hold."""

    item: Item | None = None  # the item that did not meet it, where the server returns it


class TableMissing(Misconfigured):
    """The table is not there."""


def map_error(error: Exception, operation: str, table: str) -> Exception:
    """Return our error for one that the SDK has raised."""
    below = getattr(error, "kwargs", {}).get("error")  # the error that the SDK has caught
    names = {kind.__name__ for kind in (*type(error).__mro__, *type(below).__mro__)}
    answer: dict[str, Any] = getattr(error, "response", None) or {}
    code = str(answer.get("Error", {}).get("Code", "")).rpartition("#")[2]
    code = code.removesuffix("Exception")
    what = f"DynamoDB's table {table!r}"
    if code == "ConditionalCheckFailed":
        refused = Refused()
        refused.item = answer.get("Item")
        return refused
    if code == "ResourceNotFound":
        return TableMissing(f"{what} is not there, so nothing was done: {error}")
    if code in _DENIED or names & _NO_IDENTITY:
        return Denied(f"{what} may not be used by these credentials; nothing was done: {error}")
    if code.endswith(_LATER) or names & _UNSENT:
        return Unavailable(f"{what} cannot serve now; nothing was done ({error})")
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", _SERVER_ERROR)
    if status < _SERVER_ERROR:
        return Misconfigured(f"{what} refuses the request, nothing was done: {error}")
    return no_answer(operation, table, error)


def no_answer(operation: str, table: str, why: object) -> FencelockError:
    """Return the error of a request without a reply; a write may have been carried out."""
    what = f"DynamoDB's table {table!r} did not answer ({why})"
    if operation.startswith(_READS):
        return Unavailable(f"{what}; nothing was done")
    return OutcomeUnknown(f"{what}: the change may have taken effect")
