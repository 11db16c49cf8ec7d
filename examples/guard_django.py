"""A guard in Django: a model whose rows refuse a holder that comes too late.

One file instead of a site, so the settings stand here and the table is made by hand.
"""

from __future__ import annotations

import logging
import time

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}},
    INSTALLED_APPS=["fencelock.guards.django"],  # for the table of SqlGuard; models need it not
)
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection, models, transaction  # noqa: E402

import fencelock  # noqa: E402
from fencelock.guards.django import FencedModel  # noqa: E402
from fencelock.guards.sql import SqlGuard  # noqa: E402


class Stock(FencedModel):
    """Has a field ``fence`` by its base."""

    n = models.IntegerField()

    class Meta:
        app_label = "shop"


def main() -> None:
    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    call_command("migrate", verbosity=0)
    if Stock._meta.db_table not in connection.introspection.table_names():
        with connection.schema_editor() as editor:
            editor.create_model(Stock)
    Stock.objects.update_or_create(pk=42, defaults={"n": 10})

    with fencelock.connect("sqlite:///locks.db") as client:
        # Not renewed, so it ends as if this process had been frozen.
        first = client.lock("stock:42", ttl=0.2, renew=False).acquire()
        stock = Stock.objects.fenced(first).enter(pk=42)  # raises the mark of the row, reads it
        time.sleep(0.3)

        with client.lock("stock:42", timeout=5) as lease:
            Stock.objects.filter(pk=42).fenced(lease).update(n=models.F("n") - 1)

            with transaction.atomic():  # or by a table of marks, for anything in the transaction
                SqlGuard().enter(connection, lease)

        stock.n -= 1
        try:
            stock.save(fence=first.fence)  # the lease itself would say that it is over
        except fencelock.StaleFence as error:
            print(f"it is not saved: {error}")

    print(f"there are {Stock.objects.get(pk=42).n} left")
    connection.close()


if __name__ == "__main__":
    main()
