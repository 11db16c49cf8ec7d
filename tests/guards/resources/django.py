"""A counter as a model of Django, in PostgreSQL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.db import connections, transaction
from django.db.utils import load_backend

from fencelock.guards.sql import RowGuard
from tests.guards.sql import django_site
from tests.guards.sql.hands import django_database

ALIAS = "counters"

django_site.ready()
load_backend("django.db.backends.postgresql")  # what a forked process would load again

from tests.guards.sql.django_models import Row  # noqa: E402  # models need a site that is ready

READERS = RowGuard(Row._meta.db_table)


class Counter:
    """One row, in a transaction for each step."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        name, database = uuid4().hex, django_database("postgresql", folder)
        django_site.ready(**{ALIAS: database})
        with transaction.atomic(using=ALIAS):
            with connections[ALIAS].cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(1, 1)")
            tables = connections[ALIAS].introspection.table_names()
            if Row._meta.db_table not in tables:
                with connections[ALIAS].schema_editor() as editor:
                    editor.create_model(Row)
            Row.objects.using(ALIAS).create(name=name, value=0)
        connections[ALIAS].close()
        return json.dumps({"database": database, "name": name})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        django_site.ready(**{ALIAS: place["database"]})
        self._key, self._row = {"pk": place["name"]}, {"name": place["name"]}

    @property
    def _rows(self) -> Any:
        return Row.objects.using(ALIAS)

    def enter(self, fence: int, reading: bool = False) -> int:
        if reading:
            with transaction.atomic(using=ALIAS):
                READERS.enter(connections[ALIAS], fence, self._row, reading=True)
                return self.read()
        return int(self._rows.fenced(fence).enter(**self._key).value)

    def write(self, value: int, fence: int) -> None:
        row = self._rows.get(**self._key)
        row.value = value
        row.save(fence=fence, using=ALIAS)

    def read(self) -> int:
        return int(self._rows.get(**self._key).value)

    def write_bare(self, value: int) -> None:
        self._rows.filter(**self._key).update(value=value)

    def mark(self, reading: bool = False) -> int:
        return int(READERS.mark(connections[ALIAS], self._row, reading=reading))

    def close(self) -> None:
        connections[ALIAS].close()
