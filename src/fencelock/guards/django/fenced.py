"""Django models whose rows carry the highest fence that they have seen, and refuse an older one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from django.db import connections, models, router, transaction
from django.db.models.functions import Greatest

from ...errors import UsageError
from ..fence import Claim, Fenced, claim
from ..sql import errors
from ..sql.rows import check_writer
from ..sql.steps import Table

__all__ = ["FenceField", "FencedModel", "FencedQuerySet"]

_NONE: Mapping[str, Any] = {}


class FenceField(models.BigIntegerField):
    """The mark of a row. Saving an object with an old value never lowers it."""

    def pre_save(self, model_instance: Any, add: bool) -> Any:
        value = super().pre_save(model_instance, add)
        return value if add else Greatest(models.F(self.attname), value)


def _unfenced(verb: str) -> Any:
    """Return a method that checks no fence, and so raises UsageError after ``fenced()``."""

    def method(self: FencedQuerySet, *given: Any, **options: Any) -> Any:
        if self._claim is not None:
            raise UsageError(
                f"{verb}() looks at no fence: use fenced(lease).update() or save(fence=lease), or "
                "let SqlGuard enter the transaction"
            )
        return getattr(super(FencedQuerySet, self), verb)(*given, **options)

    method.__name__ = verb
    method.alters_data = True  # type: ignore[attr-defined]
    return method


class FencedQuerySet(models.QuerySet):
    """After ``fenced(lease)``, ``update``, ``delete`` and ``enter`` check the fence."""

    _claim: Claim | None = None

    def fenced(self, lease: Fenced | int, name: str | None = None) -> Self:
        """Return the same rows, to be changed under this fence. A bare one needs no name."""
        clone = self._chain()
        clone._claim = _claim(self.model, lease, name)
        return clone

    def enter(self, *conditions: Any, **lookup: Any) -> Any:
        """Raise the mark of one row and return it, as ``get`` does, or raise StaleFence."""
        found, rows = self._fenced("enter")
        rows = rows.filter(*conditions, **lookup)
        with transaction.atomic(using=rows.db):
            _raise(rows, found)
            return rows.get()

    enter.alters_data = True  # type: ignore[attr-defined]  # templates must not call it

    def update(self, **values: Any) -> int:
        """Update the rows; with a fence, all of them, or none and raise StaleFence."""
        if self._claim is None:
            return int(super().update(**values))
        if "fence" in values:
            raise UsageError("the field 'fence' is the guard's own: leave it out of the values")
        found, rows = self._fenced("update")
        with transaction.atomic(using=rows.db):
            return _raise(rows, found, values)

    update.alters_data = True  # type: ignore[attr-defined]

    def delete(self) -> tuple[int, dict[str, int]]:
        """Delete the rows; with a fence, all of them, or none and raise StaleFence."""
        if self._claim is None:
            deleted: tuple[int, dict[str, int]] = super().delete()
            return deleted
        found, rows = self._fenced("delete")
        with transaction.atomic(using=rows.db):
            _raise(rows, found)
            return rows.delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]

    def _fenced(self, verb: str) -> tuple[Claim, Self]:
        """Return the claim, and a query set of the rows for writing, without the claim."""
        if self._claim is None:
            raise UsageError(f"{verb}() needs a fence: call fenced(lease) first")
        rows = self._chain()
        rows._claim = None
        rows._for_write = True
        return self._claim, rows

    def _clone(self) -> Self:
        clone: Self = super()._clone()
        clone._claim = self._claim
        return clone

    def create(self, **values: Any) -> Any:
        """Insert a row; with a fence, the fence is its first mark."""
        given = {} if self._claim is None else {"fence": self._claim.mark}
        return super().create(**values, **given)

    bulk_create = _unfenced("bulk_create")
    bulk_update = _unfenced("bulk_update")
    get_or_create = _unfenced("get_or_create")
    update_or_create = _unfenced("update_or_create")


class FencedModel(models.Model):
    """Gives a model the field ``fence``: the highest fence that its row has seen."""

    fence_epoch: ClassVar[int] = 0
    """Incremented when the locks move to an engine whose fences are smaller."""

    fence: Any = FenceField(default=0, editable=False)
    objects: ClassVar[Any] = FencedQuerySet.as_manager()

    class Meta:
        abstract = True

    def save(self, *args: Any, fence: Fenced | int | None = None, **options: Any) -> None:
        """Save the object; with a lease or its fence, only if the row has seen no higher one.

        Without a fence it is saved as usual, which protects nothing and never lowers the mark.
        """
        if fence is None:
            return super().save(*args, **options)
        before, found, using = self.fence, _claim(type(self), fence), self._using(options)
        try:
            with transaction.atomic(using=using):
                if self.pk is not None:
                    _raise(type(self)._base_manager.using(using).filter(pk=self.pk), found)
                self.fence = found.mark
                super().save(*args, **{**options, "using": using})
        except BaseException:
            self.fence = before
            raise

    save.alters_data = True  # type: ignore[attr-defined]

    def delete(self, *args: Any, fence: Fenced | int | None = None, **options: Any) -> Any:
        """Delete the object; with a lease or its fence, only if the row has seen no higher one."""
        if fence is None:
            return super().delete(*args, **options)
        found, using = _claim(type(self), fence), self._using(options)
        with transaction.atomic(using=using):
            _raise(type(self)._base_manager.using(using).filter(pk=self.pk), found)
            return super().delete(*args, **{**options, "using": using})

    delete.alters_data = True  # type: ignore[attr-defined]

    def _using(self, options: Mapping[str, Any]) -> str:
        return options.get("using") or str(router.db_for_write(type(self), instance=self))


def _claim(model: Any, lease: Fenced | int, name: str | None = None) -> Claim:
    bare = name is None and isinstance(lease, int)
    label, epoch = model._meta.label, model.fence_epoch
    return check_writer(claim(lease, label if bare else name, epoch, guard="django"))


def _raise(rows: Any, found: Claim, values: Mapping[str, Any] = _NONE) -> int:
    """Raise the marks of the rows and write the values, or raise StaleFence for the highest."""
    lower, higher = rows.filter(fence__lte=found.mark), rows.filter(fence__gt=found.mark)
    if connections[rows.db].vendor == "mysql":
        higher = higher.select_for_update()  # the newest rows, whatever was read before
    try:
        changed = int(lower.update(**values, fence=found.mark))
        highest = higher.order_by("-fence").values_list("fence", flat=True).first()
    except Exception as error:
        errors.raise_mapped(error, Table(rows.model._meta.db_table, "fence"))
        raise
    if highest is not None:
        raise found.stale(highest)
    return changed
