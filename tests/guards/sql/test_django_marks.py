"""Django: the table of marks, made by the migration of a real site."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path
from uuid import uuid4

import pytest

from tests.guards.sql import django_site

django_site.ready()

from django.core.management import call_command  # noqa: E402
from django.db import OperationalError, connections, transaction  # noqa: E402

from fencelock import Misconfigured, StaleFence, UsageError  # noqa: E402
from fencelock.guards.django import FencedModel, FencedQuerySet  # noqa: E402
from fencelock.guards.django.models import Mark  # noqa: E402
from fencelock.guards.sql import SqlGuard  # noqa: E402
from tests.guards.sql.hands import django_database  # noqa: E402
from tests.guards.sql.looks import Lease  # noqa: E402


def test_the_migration_makes_the_table_that_the_guard_uses(using: str) -> None:
    call_command("migrate", "fencelock_guards", database=using, verbosity=0)
    guard, connection = SqlGuard(), connections[using]
    with transaction.atomic(using=using):
        guard.enter(connection, Lease("ünïcode", 7))
    with pytest.raises(UsageError, match="outside of a transaction"):
        guard.enter(connection, Lease("ünïcode", 8))
    with pytest.raises(StaleFence), transaction.atomic(using=using):
        guard.enter(connection, Lease("ünïcode", 6))
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
