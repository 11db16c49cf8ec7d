"""Tables that SQLAlchemy knows, in three databases and by two flavors of drivers."""

from __future__ import annotations

from uuid import uuid4

from sqlalchemy import ForeignKey, String, select
from sqlalchemy.engine import Engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    mapped_column,
    relationship,
)

from fencelock.guards.sqlalchemy import FencedMixin

STORES = {
    "sqlite": "pysqlite",
    "postgresql": "psycopg",
    "mariadb": "pymysql",
    "mysql": "pymysql",
}
AIO = {
    "sqlite": "aiosqlite",
    "postgresql": "psycopg",
    "mariadb": "aiomysql",
    "mysql": "aiomysql",
}
ID = uuid4().hex[:12]


class Base(DeclarativeBase):
    pass


class Stock(FencedMixin, Base):
    __tablename__ = f"alchemy_stock_{ID}"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    n: Mapped[int] = mapped_column(default=0)
    kind: Mapped[str | None] = mapped_column(String(20), ForeignKey(f"alchemy_kind_{ID}.name"))


class Kind(Base):
    __tablename__ = f"alchemy_kind_{ID}"

    name: Mapped[str] = mapped_column(String(20), primary_key=True)  # MySQL wants the length
    stocks: Mapped[list[Stock]] = relationship()


def row(engine: Engine, key: int = 42) -> tuple[int, int] | None:
    with engine.connect() as connection:
        found = connection.execute(select(Stock.n, Stock.fence).where(Stock.id == key)).first()
        return (found.n, found.fence) if found else None
