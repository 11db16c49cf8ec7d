"""Add the columns of readers to a table that was created without them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models

from fencelock.guards.sql import SqlGuard


def extend(apps: Any, editor: Any) -> None:
    SqlGuard().create(editor.connection)


class Migration(migrations.Migration):
    dependencies: ClassVar = [("fencelock_guards", "0001_marks")]
    operations: ClassVar = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(extend, migrations.RunPython.noop)],
            state_operations=[
                migrations.AddField(
                    model_name="mark", name=name, field=models.BigIntegerField(null=True)
                )
                for name in ("read_mark", "write_mark")
            ],
        )
    ]
