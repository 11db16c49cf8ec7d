"""The table of the marks as a model, for reading only."""

from __future__ import annotations

from typing import Any

from django.db import models

__all__ = ["Mark"]


class NameField(models.CharField):
    """A guarded name: text, which MySQL stores as bytes so that it is compared exactly."""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        value = super().get_db_prep_value(value, connection, prepared)
        return value.encode() if connection.vendor == "mysql" and value is not None else value


class Mark(models.Model):
    """The marks of a name: the highest of all and, if a reader has that, the writers' beside it.

    They are written by ``SqlGuard``.
    """

    name = NameField(max_length=512, primary_key=True)
    mark = models.BigIntegerField()
    seen_at = models.BigIntegerField(help_text="in seconds, by the clock of the database")
    read_mark = models.BigIntegerField(null=True)
    write_mark = models.BigIntegerField(null=True)

    class Meta:
        db_table = "fencelock_marks"
        ordering = ("name",)

    def __str__(self) -> str:
        return f"{self.name}: {self.mark}"
