"""A table of DynamoDB's that is nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.guards.dynamodb.desks import (
    close_bridges,
)
from tests.servers.dynamodb import DynamoDB, table
from tests.servers.shared import shared


@pytest.fixture(scope="module", autouse=True)
def bridges() -> Iterator[None]:
    yield
    close_bridges()


@pytest.fixture
def server() -> DynamoDB:
    return shared(DynamoDB)


@pytest.fixture
def items(server: DynamoDB) -> Any:
    """boto3's Table, empty."""
    return table(server.url, server.fresh_table())
