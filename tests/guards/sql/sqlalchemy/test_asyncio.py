"""SQLAlchemy in asyncio: sessions that refuse to flush with a stale fence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)

from fencelock import StaleFence
from fencelock.guards.sql import SqlGuard
from fencelock.guards.sqlalchemy import guard_session
from tests.guards.sql.hands import url_of
from tests.guards.sql.sqlalchemy.stock import AIO, Base, Stock


@asynccontextmanager
async def opened(store: str, folder: Path) -> AsyncIterator[Any]:
    engine = create_async_engine(url_of(store, folder, AIO[store]))
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    try:
        async with AsyncSession(engine, expire_on_commit=False) as session:
            session.add(Stock(id=42, n=1))
            await session.commit()
            yield session
    finally:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
        await engine.dispose()


def test_an_asyncio_session_is_guarded_alike(store: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with opened(store, tmp_path) as session:
            with guard_session(session, 7, "a") as guarded:
                stock = await guarded.get(Stock, 42)
                stock.n = 2
                await session.commit()
            with guard_session(session, 6, "a") as guarded:
                with pytest.raises(StaleFence):
                    await guarded.get(Stock, 42)
                await session.rollback()
                (await session.get_one(Stock, 42)).n = 9
                with pytest.raises(StaleFence):
                    await session.commit()
                await session.rollback()
                with pytest.raises(StaleFence):
                    await session.execute(update(Stock).values(n=9))
                await session.rollback()
            found = (await session.execute(select(Stock.n, Stock.fence))).one()
            assert tuple(found) == (2, 7)

    asyncio.run(play())


def test_an_asyncio_session_can_enter_a_table_of_marks(store: str, tmp_path: Path) -> None:
    guard = SqlGuard(f"marks_{uuid4().hex[:12]}")

    async def play() -> None:
        async with opened(store, tmp_path) as session:
            await guard.create(session)
            await session.commit()
            await guard.enter(session, 5, "a")
            await session.commit()
            with pytest.raises(StaleFence):
                await guard.enter(session, 4, "a")
            await session.rollback()
            make = async_sessionmaker(session.bind)
            registry = async_scoped_session(make, scopefunc=asyncio.current_task)
            assert await guard.mark(registry, "a") == 5
            await registry.remove()

    asyncio.run(play())
