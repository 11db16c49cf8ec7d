"""SQLAlchemy 2: mapped classes with a fence, and a session that refuses to flush with a stale one.

    class Stock(FencedMixin, Base): ...

    with client.lock("stock:42") as lease, Session() as session, guard_session(session, lease) as g:
        stock = g.get(Stock, 42)        # raises the mark of the row and loads it
        stock.amount -= 1
        session.commit()                # or StaleFence, and nothing is written

The mark is in the row, as for ``RowGuard``. Before SQLAlchemy updates or deletes a row, the hook
executes ``UPDATE … SET fence = :fence WHERE id = … AND fence <= :fence``, which also locks the row
until the transaction ends. To guard more than rows, or Core, use ``SqlGuard``: its ``enter`` takes
a Connection or a Session of either flavor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqlalchemy import BigInteger, Connection, Table, and_, event, select, text, true, update
from sqlalchemy.orm import (
    Mapped,
    Mapper,
    ORMExecuteState,
    Session,
    attributes,
    class_mapper,
    mapped_column,
    object_session,
)
from sqlalchemy.sql import ColumnElement

from ..errors import UsageError
from .fence import Claim, Fenced, claim
from .sql import errors
from .sql.rows import check_writer
from .sql.sqlalchemy_adapter import is_async_session
from .sql.steps import Table as SqlTable

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["FencedMixin", "SessionGuard", "guard_session"]

T = TypeVar("T")

_KEY = "fencelock.guard"


class FencedMixin:
    """Gives a mapped class the column ``fence``: the highest fence that its row has seen."""

    fence: Mapped[int] = mapped_column(
        BigInteger, nullable=False, default=0, server_default=text("0")
    )


def guard_session(
    session: Session | AsyncSession,
    lease: Fenced | int,
    name: str | None = None,
    epoch: int = 0,
    *,
    unfenced: Iterable[type[Any]] = (),
) -> SessionGuard:
    """Check the fence at every flush of this session, inside of a ``with`` block.

    Changes of classes without a fence are refused, except for those in ``unfenced``, which are
    unprotected unless the same transaction raises another mark. The block needs no ``async`` with
    an AsyncSession: entering it does no I/O.
    """
    return SessionGuard(session, lease, name, epoch, tuple(unfenced))


class SessionGuard:
    """A session whose changes to fenced classes are refused when the fence is stale."""

    def __init__(
        self,
        session: Session | AsyncSession,
        lease: Fenced | int,
        name: str | None = None,
        epoch: int = 0,
        unfenced: tuple[type[Any], ...] = (),
    ) -> None:
        self._unfenced = unfenced
        self._told = (lease, name, epoch)
        self.claim  # noqa: B018  # raises if there is no valid claim
        self._given = session
        self._session: Any = session.sync_session if is_async_session(session) else session

    @property
    def claim(self) -> Claim:
        """The claim of all changes; LeaseLost if the lease knows that it has ended."""
        return check_writer(claim(*self._told, guard="sqlalchemy"))

    def __enter__(self) -> Self:
        if self._session.info.get(_KEY) is not None:
            raise UsageError("this session is guarded already: leave that block first")
        self._session.info[_KEY] = self
        event.listen(self._session, "do_orm_execute", self._execute)
        event.listen(self._session, "before_flush", self._flush)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._session.info.pop(_KEY, None)
        event.remove(self._session, "do_orm_execute", self._execute)
        event.remove(self._session, "before_flush", self._flush)

    def get(self, entity: type[T], key: Any) -> Any:
        """Raise the mark of a row and load it afresh; return None if there is no such row.

        An older holder cannot change the row any more after that. With an AsyncSession, await it.
        """
        if is_async_session(self._given):
            return self._given.run_sync(self._get, entity, key)
        return self._get(self._session, entity, key)

    def _get(self, session: Session, entity: type[T], key: Any) -> T | None:
        mapper = class_mapper(entity)
        parts: Any = key if isinstance(key, tuple) else (key,)  # pyright: ignore[reportUnknownVariableType]
        self.enter_row(session.connection({"mapper": mapper}), mapper, parts)
        # Locked, to read the newest version, whatever the transaction has read before.
        return session.get(entity, parts, populate_existing=True, with_for_update=True)

    def enter_row(self, connection: Connection, mapper: Mapper[Any], key: Sequence[Any]) -> None:
        """Raise the mark of the row with this primary key, or raise StaleFence."""
        columns = zip(mapper.primary_key, key, strict=True)
        self._enter(connection, mapper, and_(*(column == part for column, part in columns)), 1)

    def _enter(
        self, connection: Connection, mapper: Mapper[Any], rows: ColumnElement[bool], known: int = 0
    ) -> None:
        if not issubclass(mapper.class_, FencedMixin):
            raise UsageError(f"{mapper.class_.__name__} has no fence: derive it from FencedMixin")
        fence, mark = mapper.columns["fence"], self.claim.mark
        table = fence.table
        assert isinstance(table, Table)
        raised = update(table).where(rows, fence <= mark).values({fence.name: mark})
        above = select(fence).where(rows, fence > mark).order_by(fence.desc()).limit(1)
        try:
            if connection.execute(raised).rowcount == known > 0:
                return
            highest = connection.execute(above.with_for_update()).scalar()
        except Exception as error:
            errors.raise_mapped(error, SqlTable(table.name, fence.name))
            raise
        if highest is not None:
            raise self.claim.stale(int(highest))

    def _flush(self, session: Session, *_: object) -> None:
        """Refuse a flush of objects whose class has no fence and is not in ``unfenced``."""
        targets: list[object] = [*session.new, *session.deleted]
        for target in session.dirty:
            if session.is_modified(target, include_collections=False):
                targets.append(target)
        for target in targets:
            self._demand_fence(type(target))

    def _demand_fence(self, kind: type[Any]) -> None:
        if not issubclass(kind, (FencedMixin, *self._unfenced)):
            raise UsageError(
                f"{kind.__name__} has no fence, so that an older holder could change it unnoticed; "
                "nothing was written. Derive it from FencedMixin, or let SqlGuard enter the "
                f"transaction and name it: guard_session(…, unfenced=[{kind.__name__}])"
            )

    def _execute(self, state: ORMExecuteState) -> None:
        """Guard an UPDATE or DELETE of many rows at once."""
        mapper = state.bind_mapper
        if mapper is None or not (state.is_update or state.is_delete or state.is_insert):
            return
        self._demand_fence(mapper.class_)
        if state.is_insert or not issubclass(mapper.class_, FencedMixin):
            return
        statement: Any = state.statement
        if isinstance(state.parameters, list):
            raise UsageError(
                "a guarded session cannot tell which rows an UPDATE by a list of parameters "
                "changes: change the objects, or let SqlGuard enter the transaction"
            )
        rows = statement.whereclause if statement.whereclause is not None else true()
        connection = state.session.connection({"mapper": mapper})
        self._enter(connection, mapper, rows)
        state.statement = statement.where(mapper.columns["fence"] <= self.claim.mark)


def _guard(target: object) -> SessionGuard | None:
    session = object_session(target)
    return session.info.get(_KEY) if session is not None else None


def _before_insert(mapper: Mapper[Any], connection: Connection, target: FencedMixin) -> None:
    if guard := _guard(target):
        target.fence = guard.claim.mark


def _before_change(mapper: Mapper[Any], connection: Connection, target: FencedMixin) -> None:
    """Raise the mark of a row before it is changed, even if the values are the same: a late holder
    must get StaleFence."""
    if guard := _guard(target):
        guard.enter_row(connection, mapper, mapper.primary_key_from_instance(target))
        attributes.set_committed_value(target, "fence", guard.claim.mark)


event.listen(FencedMixin, "before_insert", _before_insert, propagate=True)
event.listen(FencedMixin, "before_update", _before_change, propagate=True)
event.listen(FencedMixin, "before_delete", _before_change, propagate=True)
