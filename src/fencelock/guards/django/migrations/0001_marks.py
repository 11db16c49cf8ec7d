"""Create the table of the marks, exactly as ``SqlGuard.schema`` has it for this database."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models

from fencelock.guards.django.models import NameField
from fencelock.guards.sql import SqlGuard


def make(apps: Any, editor: Any) -> None:
    editor.execute(SqlGuard().schema(editor.connection.vendor), None)


def drop(apps: Any, editor: Any) -> None:
    editor.execute("DROP TABLE fencelock_marks", None)


class Migration(migrations.Migration):
    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(make, drop)],
            state_operations=[
                migrations.CreateModel(
                    name="Mark",
                    fields=[
                        ("name", NameField(max_length=512, primary_key=True, serialize=False)),
                        ("mark", models.BigIntegerField()),
                        (
                            "seen_at",
                            models.BigIntegerField(
                                help_text="in seconds, by the clock of the database"
                            ),
                        ),
                    ],
                    options={"db_table": "fencelock_marks", "ordering": ("name",)},
                )
            ],
        )
    ]
