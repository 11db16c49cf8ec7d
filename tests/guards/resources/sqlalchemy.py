"""A counter that SQLAlchemy maps, in PostgreSQL: its session refuses the flush."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

from sqlalchemy import BigInteger, create_engine, text, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, configure_mappers, mapped_column

from fencelock.guards.sql import RowGuard
from fencelock.guards.sqlalchemy import FencedMixin, guard_session
from tests.servers.postgresql import Postgresql
from tests.servers.shared import shared


class Base(DeclarativeBase):
    pass


class Row(FencedMixin, Base):
    """One counter."""

    __tablename__ = "mapped_counters"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int]
    fence_read: Mapped[int | None] = mapped_column(BigInteger)  # for readers, by RowGuard
    fence_write: Mapped[int | None] = mapped_column(BigInteger)


READERS = RowGuard("mapped_counters")

create_engine("postgresql+psycopg://")  # loads what a forked process would load again
configure_mappers()


class Counter:
    """One row, in a session for each step."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        name = uuid4().hex
        url = shared(Postgresql).url().replace("postgresql:", "postgresql+psycopg:")
        engine = create_engine(url)
        with Session(engine) as session:
            session.execute(text("SELECT pg_advisory_xact_lock(1, 1)"))
            Base.metadata.create_all(session.connection())
            session.add(Row(name=name, value=0))
            session.commit()
        engine.dispose()
        return json.dumps({"url": url, "name": name})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._name = place["name"]
        self._engine = create_engine(place["url"], pool_size=1)

    def enter(self, fence: int, reading: bool = False) -> int:
        with Session(self._engine) as session:
            if reading:
                READERS.enter(session, fence, {"name": self._name}, reading=True)
                found = session.get_one(Row, self._name).value
                session.commit()
                return found
            with guard_session(session, fence, self._name) as guarded:
                value: int = guarded.get(Row, self._name).value  # after the commit it is read anew
                session.commit()
                return value

    def write(self, value: int, fence: int) -> None:
        with Session(self._engine) as session, guard_session(session, fence, self._name):
            row = session.get_one(Row, self._name)
            row.value = value
            session.commit()

    def read(self) -> int:
        with Session(self._engine) as session:
            return session.get_one(Row, self._name).value

    def write_bare(self, value: int) -> None:
        with Session(self._engine) as session:
            session.execute(update(Row).where(Row.name == self._name).values(value=value))
            session.commit()

    def mark(self, reading: bool = False) -> int:
        with Session(self._engine) as session:
            return int(READERS.mark(session, {"name": self._name}, reading=reading))

    def close(self) -> None:
        self._engine.dispose()
