"""Django: models and querysets, on SQLite, PostgreSQL and MySQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.guards.sql import django_site

django_site.ready()

from django.db import IntegrityError, connections, models, transaction  # noqa: E402

import fencelock  # noqa: E402
from fencelock import Misconfigured, StaleFence, UsageError  # noqa: E402
from tests.guards.sql.django_models import Shelf  # noqa: E402
from tests.guards.sql.looks import Lease  # noqa: E402


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
        shelf.save(fence=Lease("shelf", fence))
        assert look(shelf) == (amount, fence)
    shelf.amount = 9
    with pytest.raises(StaleFence) as caught:
        shelf.save(fence=Lease("shelf", 6))
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
    assert rows.filter(place__startswith="1").fenced(Lease("shelf", 7)).update(amount=2) == 2
    assert [look(shelf) for shelf in made] == [(2, 7), (2, 7), (1, 0)]
    with pytest.raises(StaleFence) as caught:
        rows.fenced(Lease("shelf", 6)).update(amount=models.F("amount") + 5)
    assert caught.value.highest == 7
    assert [look(shelf) for shelf in made] == [(2, 7), (2, 7), (1, 0)]
    changed = rows.filter(amount=2).fenced(Lease("shelf", 8)).update(amount=3)
    assert changed == 2  # although it is what it looks for
    assert rows.filter(place="9Z").fenced(Lease("shelf", 1)).update(amount=3) == 0
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
    assert rows.fenced(Lease("shelf", 7)).enter(pk=shelf.pk).fence == 7
    with pytest.raises(StaleFence):
        rows.fenced(Lease("shelf", 6)).enter(pk=shelf.pk)
    with pytest.raises(Shelf.DoesNotExist):
        rows.fenced(Lease("shelf", 7)).enter(pk=999)
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


def test_a_reader_is_told_that_a_row_keeps_one_mark(shelf: Any) -> None:
    with fencelock.connect("memory://") as client, client.rwlock("shelf").read() as lease:
        with pytest.raises(UsageError, match="admits writers only"):
            shelf.save(fence=lease)
        with pytest.raises(UsageError, match="admits writers only"):
            type(shelf).objects.fenced(lease)
