"""Add the fence and its condition to requests of DynamoDB: dictionaries, whoever sends them.

    request = fenced_put({"Item": item}, claim(lease))
    table.put_item(**request)

An item carries its own mark, in one attribute. A request is accepted only if that attribute is not
there or not higher than the claim, and sets it: DynamoDB does both in one step. What the caller's
request already has stays in it: its own condition must hold, too.

``typed`` is for a client that takes ``{"N": "1"}`` for 1, as boto3's low-level client does and its
Table does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ...errors import EngineError, StaleFence, UsageError
from ..aws import answer_of, code_of
from ..fence import Claim

__all__ = ["ATTRIBUTE", "condition", "fenced_put", "fenced_update", "mark_of", "refusal"]

ATTRIBUTE = "fence"
Request = Mapping[str, Any]

_NAME, _VALUE = "#fencelock", ":fencelock"
_OURS = f"attribute_not_exists({_NAME}) OR {_NAME} <= {_VALUE}"
_SET = re.compile(r"(?<![#:.\w])SET\s", re.IGNORECASE)


def condition(
    claim: Claim, request: Request | None = None, *, attribute: str = ATTRIBUTE, typed: bool = False
) -> dict[str, Any]:
    """The request with the condition that the claim is not below the mark, and nothing else."""
    given = dict(request or {})
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
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",  # to tell the mark to the refused
    }


def fenced_put(
    request: Request, claim: Claim, *, attribute: str = ATTRIBUTE, typed: bool = False
) -> dict[str, Any]:
    """A put, guarded. The item gets the mark."""
    item = {**request["Item"], attribute: number(claim.mark, typed)}
    return {**condition(claim, request, attribute=attribute, typed=typed), "Item": item}


def fenced_update(
    request: Request, claim: Claim, *, attribute: str = ATTRIBUTE, typed: bool = False
) -> dict[str, Any]:
    """An update, guarded. With no expression of its own it only raises the mark."""
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
    """What an error of a client means for a guarded request.

    StaleFence when the mark was higher; None for anything else, as when a condition of the caller's
    own did not hold. For a transaction, the first item that refused counts. Some servers do not
    tell which item they refused: with the request at hand, a lone condition of ours is enough.
    """
    response = answer_of(error)
    items: list[Any] = []
    if code_of(error) == "ConditionalCheckFailedException":
        items = [response.get("Item")]
    elif code_of(error) == "TransactionCanceledException":
        items = [reason.get("Item") for reason in response.get("CancellationReasons", [])]
    for item in items:
        highest = mark_of(item, attribute)
        if highest > claim.mark:
            return claim.stale(highest)
    if items == [None] and request and request.get("ConditionExpression") == _OURS:
        return StaleFence(
            f"{claim.name!r} has seen a higher fence and refuses {claim.fence}: another holder has "
            "taken over, so stop and do not retry with this lease",
            name=claim.name,
            offered=claim.fence,
        )
    return None


def mark_of(item: Mapping[str, Any] | None, attribute: str = ATTRIBUTE) -> int:
    """The mark in an item of either form; 0 when there is none."""
    value: Any = (item or {}).get(attribute, 0)
    try:
        return int(cast("dict[str, str]", value)["N"] if isinstance(value, dict) else value)
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(
            f"the attribute {attribute!r} holds {value!r}, which no guard wrote; nothing was done: "
            "give the guard an attribute of its own"
        ) from error


def number(value: int, typed: bool) -> Any:
    return {"N": str(value)} if typed else value
