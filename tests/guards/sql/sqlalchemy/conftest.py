"""A database with some stock in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import Engine
from sqlalchemy.orm import (
    Session,
)

from tests.guards.sql.hands import url_of
from tests.guards.sql.sqlalchemy.stock import STORES, Base, Kind, Stock


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(store: str, tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(url_of(store, tmp_path, STORES[store]))
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Kind(name="pen"))
        session.flush()
        session.add_all([Stock(id=number, n=1, kind="pen") for number in (41, 42, 43)])
        session.commit()
    yield engine
    Base.metadata.drop_all(engine)
    engine.dispose()


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    with Session(engine) as session:
        yield session
