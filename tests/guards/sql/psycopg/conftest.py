"""A connection of psycopg's, and a guard with a table of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from fencelock.guards.sql import SqlGuard
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared


@pytest.fixture
def url() -> str:
    return shared(Postgresql).url()


@pytest.fixture
def db(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url) as connection:
        yield connection


@pytest.fixture
def guard(db: psycopg.Connection[Any]) -> SqlGuard:
    guard = SqlGuard(f"marks_{uuid4().hex[:12]}")
    guard.create(db)
    db.commit()
    return guard
