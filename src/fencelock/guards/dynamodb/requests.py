"""The guarded requests as plain dictionaries, and the marks in what the table returns.

A reader keeps the mark of the writers in two more attributes: ``fence_write``, and ``fence_read``,
the mark to which that belongs. DynamoDB has no maximum function, so a reader reads first, and
writes on condition that the marks have not changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, cast

from ...errors import EngineError, StaleFence, UsageError
from ..aws import answer_of, code_of
from ..fence import Claim, MarkPair

ATTRIBUTE = "fence"
Request = Mapping[str, Any]

_NAME, _VALUE = "#fencelock", ":fencelock"
_OURS = f"attribute_not_exists({_NAME}) OR {_NAME} <= {_VALUE}"
_SET = re.compile(r"(?<![#:.\w])SET\s", re.IGNORECASE)


def condition(
    claim: Claim, request: Request | None = None, *, attribute: str = ATTRIBUTE, typed: bool = False
) -> dict[str, Any]:
    """Add to a request the condition that the claim is not below the mark, and nothing else.

    An item carries its own mark, in one attribute. A request is accepted only if that attribute
    does not exist or is not higher than the claim, and sets it: DynamoDB does both in one step. The
    rest of the caller's request is unchanged: its own condition must hold, too.

    ``typed`` is for a client that takes ``{"N": "1"}`` for 1, as boto3's low-level client does and
    its Table does not.
    """
    given = dict(request or {})
    claim.to_write()
    theirs = given.get("ConditionExpression")
    if theirs is not None and not isinstance(theirs, str):
        raise UsageError(
            "a guarded request takes its ConditionExpression as text, with "
            "ExpressionAttributeNames and -Values, not as an object of boto3"
        )
    return {
        **given,
        "ConditionExpression": f"({_OURS}) AND ({theirs})" if theirs else _OURS,
        "ExpressionAttributeNames": {
            **given.get("ExpressionAttributeNames", {}),
            _NAME: attribute,
        },
        "ExpressionAttributeValues": {
            **given.get("ExpressionAttributeValues", {}),
            _VALUE: number(claim.mark, typed),
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",  # to report the mark to the refused
    }


def fenced_put(
    request: Request, claim: Claim, *, attribute: str = ATTRIBUTE, typed: bool = False
) -> dict[str, Any]:
    """Return the request of a guarded put. The item gets the mark."""
    readers = readers_of(attribute)
    item = {name: value for name, value in request["Item"].items() if name not in readers}
    item[attribute] = number(claim.mark, typed)
    return {**condition(claim, request, attribute=attribute, typed=typed), "Item": item}


def fenced_update(
    request: Request, claim: Claim, *, attribute: str = ATTRIBUTE, typed: bool = False
) -> dict[str, Any]:
    """Return the request of a guarded update. Without an expression it only raises the mark."""
    expression = str(request.get("UpdateExpression", "")).strip()
    ours = f"SET {_NAME} = {_VALUE}"
    merged, found = _SET.subn(f"{ours}, ", expression, count=1)
    if not found:
        merged = f"{ours} {expression}".strip()
    guarded = condition(claim, request, attribute=attribute, typed=typed)
    return {**guarded, "UpdateExpression": merged}


def refusal(
    error: Exception, claim: Claim, *, attribute: str = ATTRIBUTE, request: Request | None = None
) -> StaleFence | None:
    """Return the StaleFence for an error of a guarded request, or None.

    StaleFence if the mark was higher; None for anything else, such as a condition of the caller's
    own that did not hold. In a transaction, the first item that was refused counts. Some servers do
    not return the item that they refused: then it suffices that ``request`` has no condition but
    ours.
    """
    response = answer_of(error)
    items: list[Any] = []
    if code_of(error) == "ConditionalCheckFailedException":
        items = [response.get("Item")]
    elif code_of(error) == "TransactionCanceledException":
        items = [reason.get("Item") for reason in response.get("CancellationReasons", [])]
    for item in items:
        marks = marks_of(item, attribute)
        if marks.highest > claim.mark:
            seen: Literal["read", "write"] = "read" if marks.written < marks.highest else "write"
            return claim.stale(marks.highest, seen)
    if items == [None] and request and request.get("ConditionExpression") == _OURS:
        claim.emit_stale()
        return StaleFence(
            f"{claim.name!r} has seen a higher fence and refuses {claim.fence}: another holder has "
            "taken over, so stop and do not retry with this lease",
            name=claim.name,
            offered=claim.fence,
        )
    return None


def mark_of(item: Mapping[str, Any] | None, attribute: str = ATTRIBUTE) -> int:
    """Return the mark in an item of either form; 0 if there is none."""
    value: Any = (item or {}).get(attribute, 0)
    try:
        return int(cast("dict[str, str]", value)["N"] if isinstance(value, dict) else value)
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"the attribute {attribute!r} holds {value!r}, which no guard wrote; nothing was done: "
            "give the guard an attribute of its own"
        ) from error


def marks_of(item: Mapping[str, Any] | None, attribute: str = ATTRIBUTE) -> MarkPair:
    """Return both marks in an item of either form."""
    highest = mark_of(item, attribute)
    read, write = readers_of(attribute)
    told = mark_of(item, read) == highest
    return MarkPair(highest, mark_of(item, write) if told else highest)


def readers_of(attribute: str) -> tuple[str, str]:
    """Return the attributes of readers."""
    return f"{attribute}_read", f"{attribute}_write"


def number(value: int, typed: bool) -> Any:
    return {"N": str(value)} if typed else value
