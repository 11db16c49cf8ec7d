"""Django: models, querysets and the migration of a real site, on SQLite and PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.guards.sql import django_site

django_site.ready()

from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, OperationalError, connections, models, transaction  # noqa: E402

from fencelock import Misconfigured, StaleFence, UsageError  # noqa: E402
from fencelock.guards.django import FencedModel, FencedQuerySet  # noqa: E402
from fencelock.guards.django.models import Mark  # noqa: E402
from fencelock.guards.sql import SqlGuard  # noqa: E402
from tests.guards.sql.django_models import Shelf  # noqa: E402
from tests.guards.sql.hands import django_database  # noqa: E402
from tests.servers.mariadb import ADMIN  # noqa: E402
from tests.servers.mysql import mysql  # noqa: E402
from tests.servers.postgresql import Postgresql  # noqa: E402
from tests.servers.shared import shared  # noqa: E402


class Lease:
    """As much of a lease as a guard looks at."""

    def __init__(self, fence: int, name: str = "shelf") -> None:
        self.name, self.fence = name, fence


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def using(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The alias of a database that is nobody else's."""
    alias = f"db{uuid4().hex[:12]}"
    database = django_database(request.param, tmp_path)
    if request.param == "postgresql":
        shared(Postgresql).psql(f"CREATE DATABASE {alias}")
        database["NAME"] = alias
    elif request.param == "mysql":
        shared(mysql).ask(f"CREATE DATABASE {alias}")
        database |= {"NAME": alias, "USER": ADMIN}
    django_site.ready(**{alias: database})
    with connections[alias].schema_editor() as editor:
        editor.create_model(Shelf)
    yield alias
    connections[alias].close()
    del connections[alias]


@pytest.fixture
def shelf(using: str) -> Any:
    return Shelf.objects.using(using).create(place="1A", amount=1)


def look(shelf: Any) -> tuple[int, int]:
    found = Shelf.objects.using(shelf._state.db).get(pk=shelf.pk)
    return found.amount, found.fence


# An object


def test_an_object_is_saved_with_its_fence_and_an_older_one_is_refused(shelf: Any) -> None:
    for fence, amount in ((5, 2), (5, 3), (7, 4)):
        shelf.amount = amount
        shelf.save(fence=Lease(fence))
        assert look(shelf) == (amount, fence)
    shelf.amount = 9
    with pytest.raises(StaleFence) as caught:
        shelf.save(fence=Lease(6))
    assert (caught.value.name, caught.value.offered, caught.value.highest) == ("shelf", 6, 7)
    assert look(shelf) == (4, 7)
    assert shelf.fence == 7


def test_an_object_that_was_not_saved_does_not_say_so(shelf: Any) -> None:
    shelf.save(fence=7)
    shelf.place = None
    with pytest.raises(IntegrityError):
        shelf.save(fence=8)
    assert shelf.fence == 7
    assert look(shelf) == (1, 7)


def test_a_bare_fence_is_for_the_model(shelf: Any) -> None:
    shelf.save(fence=7)
    with pytest.raises(StaleFence, match=r"shop\.Shelf"):
        shelf.save(fence=6)
    for wrong in (0, -1, 2**53, "7", 1.5, True):
        with pytest.raises(UsageError):
            shelf.save(fence=wrong)


def test_saving_without_a_fence_works_and_never_lowers_the_mark(shelf: Any) -> None:
    old = Shelf.objects.using(shelf._state.db).get(pk=shelf.pk)
    shelf.save(fence=7)
    old.amount = 3
    old.save()
    assert look(shelf) == (3, 7)
    old.save(update_fields=["amount"])
    assert look(shelf) == (3, 7)


def test_a_new_object_is_inserted_with_its_fence(using: str) -> None:
    shelf = Shelf(place="1B", amount=1)
    shelf.save(fence=7, using=using)
    assert look(shelf) == (1, 7)
    same = Shelf(pk=shelf.pk, place="1C", amount=2)  # Django would update the row
    with pytest.raises(StaleFence):
        same.save(fence=6, using=using)
    assert look(shelf) == (1, 7)
    same.save(fence=8, using=using)
    assert look(shelf) == (2, 8)


def test_an_object_is_deleted_with_a_fence(shelf: Any) -> None:
    shelf.save(fence=7)
    with pytest.raises(StaleFence):
        shelf.delete(fence=6)
    assert look(shelf) == (1, 7)
    shelf.delete(fence=7)
    assert not Shelf.objects.using(shelf._state.db).exists()


def test_a_refusal_leaves_the_callers_transaction_usable(shelf: Any, using: str) -> None:
    shelf.save(fence=7)
    with transaction.atomic(using=using):
        other = Shelf.objects.using(using).create(place="2A", amount=1)
        with pytest.raises(StaleFence):
            shelf.save(fence=6)
        other.amount = 5
        other.save()
    assert look(other) == (5, 0)


# A queryset


def test_rows_are_updated_all_or_none(using: str) -> None:
    rows = Shelf.objects.using(using)
    made = [rows.create(place=place, amount=1) for place in ("1A", "1B", "2A")]
    assert rows.filter(place__startswith="1").fenced(Lease(7)).update(amount=2) == 2
    assert [look(shelf) for shelf in made] == [(2, 7), (2, 7), (1, 0)]
    with pytest.raises(StaleFence) as caught:
        rows.fenced(Lease(6)).update(amount=models.F("amount") + 5)
    assert caught.value.highest == 7
    assert [look(shelf) for shelf in made] == [(2, 7), (2, 7), (1, 0)]
    assert rows.filter(amount=2).fenced(Lease(8)).update(amount=3) == 2  # changes what it looks for
    assert rows.filter(place="9Z").fenced(Lease(1)).update(amount=3) == 0
    assert rows.filter(place="2A").update(amount=4) == 1  # without a fence, as ever
    assert [look(shelf) for shelf in made] == [(3, 8), (3, 8), (4, 0)]


def test_a_fence_survives_filters_and_the_order_does_not_matter(shelf: Any, using: str) -> None:
    shelf.save(fence=7)
    rows = Shelf.objects.using(using)
    for late in (rows.fenced(6).filter(pk=shelf.pk), rows.filter(pk=shelf.pk).all().fenced(6)):
        with pytest.raises(StaleFence):
            late.update(amount=9)
        with pytest.raises(StaleFence):
            late.delete()
        with pytest.raises(StaleFence):
            late.enter()


def test_entering_reads_a_row_and_shuts_the_older_out(shelf: Any, using: str) -> None:
    rows = Shelf.objects.using(using)
    assert rows.fenced(Lease(7)).enter(pk=shelf.pk).fence == 7
    with pytest.raises(StaleFence):
        rows.fenced(Lease(6)).enter(pk=shelf.pk)
    with pytest.raises(Shelf.DoesNotExist):
        rows.fenced(Lease(7)).enter(pk=999)
    with pytest.raises(UsageError, match="fenced"):
        rows.enter(pk=shelf.pk)


def test_rows_are_deleted_and_made_with_a_fence(shelf: Any, using: str) -> None:
    rows = Shelf.objects.using(using)
    assert look(rows.fenced(7).create(place="3A")) == (0, 7)
    with pytest.raises(StaleFence):
        rows.fenced(6).delete()
    assert rows.count() == 2
    assert rows.fenced(7).delete()[0] == 2


def test_what_looks_at_no_fence_refuses_to_have_one(shelf: Any, using: str) -> None:
    rows = Shelf.objects.using(using)
    fenced = rows.fenced(7)
    calls: list[Callable[[], object]] = [
        lambda: fenced.bulk_create([Shelf()]),
        lambda: fenced.bulk_update([shelf], ["amount"]),
        lambda: fenced.get_or_create(place="1A"),
        lambda: fenced.update_or_create(place="1A"),
        lambda: fenced.update(fence=3),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()
    assert rows.get_or_create(place="1A")[1] is False
    assert rows.bulk_update([shelf], ["amount"]) == 1


def test_an_epoch_is_an_attribute_of_the_model(shelf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.save(fence=1000)
    monkeypatch.setattr(Shelf, "fence_epoch", 1)
    shelf.save(fence=1)
    monkeypatch.setattr(Shelf, "fence_epoch", 0)
    with pytest.raises(StaleFence, match="epoch 1"):
        shelf.save(fence=2000)


def test_a_table_without_the_column_is_misconfigured(shelf: Any, using: str) -> None:
    with connections[using].schema_editor() as editor:
        editor.delete_model(Shelf)
    with pytest.raises(Misconfigured):
        shelf.save(fence=1)


# The table of marks


def test_the_migration_makes_the_table_that_the_guard_uses(using: str) -> None:
    call_command("migrate", "fencelock_guards", database=using, verbosity=0)
    guard, connection = SqlGuard(), connections[using]
    with transaction.atomic(using=using):
        guard.enter(connection, Lease(7, "ünïcode"))
    with pytest.raises(UsageError, match="outside of a transaction"):
        guard.enter(connection, Lease(8, "ünïcode"))
    with pytest.raises(StaleFence), transaction.atomic(using=using):
        guard.enter(connection, Lease(6, "ünïcode"))
    mark = Mark.objects.using(using).get(pk="ünïcode")
    assert (mark.mark, str(mark)) == (7, "ünïcode: 7")
    assert guard.forget(connection, 3600) == 0
    call_command("migrate", "fencelock_guards", "zero", database=using, verbosity=0)
    with pytest.raises(Misconfigured), transaction.atomic(using=using):
        guard.enter(connection, 8, "a")


def test_no_migration_is_missing() -> None:
    text = StringIO()
    call_command("makemigrations", "fencelock_guards", check=True, dry_run=True, stdout=text)
    assert "No changes" in text.getvalue()
    call_command("check", "fencelock_guards")


def test_a_busy_database_is_passed_on_as_django_has_it(tmp_path: Path) -> None:
    aliases = [f"busy{uuid4().hex[:8]}" for _ in range(2)]
    database = django_database("sqlite", tmp_path)
    database["OPTIONS"] = {"timeout": 0}
    django_site.ready(**dict.fromkeys(aliases, database))
    guard, (first, second) = SqlGuard(), (connections[alias] for alias in aliases)
    guard.create(first)
    with transaction.atomic(using=aliases[0]):
        guard.enter(first, 5, "a")
        with pytest.raises(OperationalError, match="locked"), transaction.atomic(using=aliases[1]):
            guard.enter(second, 6, "a")
    for alias in aliases:
        connections[alias].close()


SITE = """
import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}},
    INSTALLED_APPS=["fencelock.guards.django"],
)
django.setup()
from django.core.management import call_command
from django.db import connection, transaction
from fencelock.guards.sql import SqlGuard

call_command("migrate", verbosity=0)
with transaction.atomic():
    SqlGuard().enter(connection, 7, "a")
print(SqlGuard().mark(connection, "a"))
"""


def test_a_site_of_ones_own_works_with_the_usual_connection(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", SITE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "7\n", "")


def test_the_names_are_where_they_are_said_to_be() -> None:
    import fencelock.guards.django as package

    assert (package.FencedModel, package.FencedQuerySet) == (FencedModel, FencedQuerySet)
    with pytest.raises(AttributeError):
        _ = package.Unknown
