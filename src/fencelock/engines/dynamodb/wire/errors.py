"""Map the errors of botocore and of DynamoDB to ours: one table.

The SDK's own retries are off, so that an error is about the only attempt. Where a condition failed
nothing has happened; where no answer came, or one that DynamoDB failed within, a write may have.
"""

from __future__ import annotations

from typing import Any

from ....errors import Denied, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from ..records import Item

READS = frozenset({"describe_table", "describe_time_to_live", "get_item", "scan"})

# Failures in which no request has left, and those of credentials, by name: this loads no botocore.
_UNSENT = {"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError", "SSLError"}
_NO_IDENTITY = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}
_IDENTITY_ADVICE = "see the credentials of the AWS SDK, and the rights in docs/engines/dynamodb.md"
_DENIED = {
    "AccessDeniedException",
    "ExpiredTokenException",
    "IncompleteSignatureException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "UnrecognizedClientException",
}
_LATER = {
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ResourceInUseException",
    "ThrottlingException",
}
_SERVER_ERROR = 500


class Refused(Exception):
    """A condition did not hold; with the item as it was, where the server tells it."""

    def __init__(self, item: Item | None) -> None:
        super().__init__("the condition of a write did not hold")
        self.item = item


class TableMissing(Misconfigured):
    """The table is not there."""


def told(error: Exception, operation: str, table: str) -> Exception:
    """Return our error for one of botocore's; others as they are."""
    names = {kind.__name__ for kind in type(error).__mro__}
    answer: dict[str, Any] = getattr(error, "response", None) or {}
    code = str(answer.get("Error", {}).get("Code", "")).rpartition("#")[2]
    what = f"DynamoDB's table {table!r}"
    if code == "ConditionalCheckFailedException":
        return Refused(answer.get("Item"))
    if code == "ResourceNotFoundException":
        return TableMissing(f"{what} is not there, so nothing was done: {error}")
    if code in _DENIED or names & _NO_IDENTITY:
        return Denied(f"{what} may not be used, nothing was done: {error}. {_IDENTITY_ADVICE}")
    if names & _UNSENT or code in _LATER:
        return Unavailable(f"{what} cannot serve now; nothing was done ({error})")
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code and status < _SERVER_ERROR:
        return Misconfigured(f"{what} refuses the request, nothing was done: {error}")
    if not code and not names & {"BotoCoreError", "HTTPClientError", "OSError"}:
        return error
    return no_answer(operation, table, error)


def no_answer(operation: str, table: str, why: object) -> FencelockError:
    """The error of a request that may have been carried out."""
    what = f"DynamoDB's table {table!r} did not answer ({why})"
    if operation in READS:
        return Unavailable(f"{what}; nothing was done")
    return OutcomeUnknown(f"{what}: the change may have taken effect")
