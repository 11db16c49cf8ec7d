"""``@client.locked("payment:{payment_id}")``: the name comes from the arguments.

The function itself sees who holds what while it runs.
"""

from __future__ import annotations

from typing import Any

import pytest

import fencelock
from fencelock import UsageError
from tests.unit.decorator.calling import Payment, names_of


def test_the_name_is_filled_from_the_arguments(client: fencelock.Client) -> None:
    @client.locked("pay:{payment_id}:{kind}")
    def pay(payment_id: int, kind: str = "card") -> list[str]:
        return names_of(client)

    assert pay(7) == ["pay:7:card"]
    assert pay(payment_id=8) == ["pay:8:card"]
    assert pay(9, "cash") == ["pay:9:cash"]
    assert pay(9, kind="cash") == ["pay:9:cash"]
    assert names_of(client) == []


def test_attributes_items_and_formats_may_be_asked_for(client: fencelock.Client) -> None:
    @client.locked("{payment.number:04d}/{payment.parts[region]}/{rest[0]}/{more[key]}/{{}}")
    def pay(payment: Payment, *rest: str, **more: str) -> list[str]:
        return names_of(client)

    assert pay(Payment(7, {"region": "eu"}), "a", "b", key="k") == ["0007/eu/a/k/{}"]


def test_a_name_without_fields_is_one_lock_for_all_calls(client: fencelock.Client) -> None:
    @client.locked("report")
    def report() -> list[str]:
        return names_of(client)

    assert report() == ["report"]


def test_a_method_may_use_its_object(client: fencelock.Client) -> None:
    class Account:
        def __init__(self, number: int) -> None:
            self.number = number

        @client.locked("account:{self.number}")
        def close(self) -> list[str]:
            return names_of(client)

    assert Account(5).close() == ["account:5"]


def test_a_name_that_an_argument_makes_impossible_is_refused(client: fencelock.Client) -> None:
    calls = []

    @client.locked("{text}")
    def work(text: str) -> None:
        calls.append(text)

    for text in ("", "a\nb", "x" * 513):
        with pytest.raises(UsageError, match="a lock name"):
            work(text)
    assert calls == []


def test_wrong_arguments_are_pythons_own_type_error(client: fencelock.Client) -> None:
    @client.locked("pay:{payment_id}")
    def pay(payment_id: int) -> None: ...

    loose: Any = pay
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            loose(*arguments)
    assert names_of(client) == []
