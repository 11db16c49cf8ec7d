"""A guard in SQLAlchemy: a session refuses to flush what a holder does too late."""

from __future__ import annotations

import logging
import time

from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import fencelock
from fencelock.guards.sqlalchemy import FencedMixin, guard_session


class Base(DeclarativeBase):
    pass


class Stock(FencedMixin, Base):
    """Has a column ``fence`` by the mixin."""

    __tablename__ = "stock"

    id: Mapped[int] = mapped_column(primary_key=True)
    n: Mapped[int]


def sell_one(engine: Engine, client: fencelock.Client) -> None:
    with (
        client.lock("stock:42", timeout=5) as lease,
        Session(engine) as session,
        guard_session(session, lease) as guarded,
    ):
        guarded.get(Stock, 42).n -= 1
        session.commit()


def main() -> None:
    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    engine = create_engine("sqlite:///shop.db")
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Stock(id=42, n=10))
        session.commit()

    with fencelock.connect("sqlite:///locks.db") as client:
        # Not renewed, so it ends as if this process had been frozen.
        first = client.lock("stock:42", ttl=0.2, renew=False).acquire()
        with (
            Session(engine, expire_on_commit=False) as slow,
            # By its fence: the lease would say itself that it is over.
            guard_session(slow, first.fence, first.name) as guarded,
        ):
            stock = guarded.get(Stock, 42)  # raises the mark of the row and loads it
            slow.commit()
            time.sleep(0.3)

            sell_one(engine, client)

            stock.n -= 1  # from what it read before
            try:
                slow.commit()
            except fencelock.StaleFence as error:
                print(f"the flush is refused: {error}")
            slow.rollback()

    with Session(engine) as session:
        print(f"there are {session.get_one(Stock, 42).n} left")
    engine.dispose()


if __name__ == "__main__":
    main()
