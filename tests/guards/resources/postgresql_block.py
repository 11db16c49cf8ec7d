"""A counter in PostgreSQL whose transactions are blocks, begun before the guard is entered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.guards.resources import postgresql


class Counter(postgresql.Counter):
    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._db.transaction():
            yield
