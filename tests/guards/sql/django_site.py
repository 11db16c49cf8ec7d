"""A Django site for the tests: settings that are real, databases that are named when needed."""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings


def ready(**databases: dict[str, Any]) -> None:
    """Set Django up, once in a process; later calls only name more databases."""
    if not settings.configured:
        settings.configure(
            DATABASES={"default": {"ENGINE": "django.db.backends.dummy"}},
            INSTALLED_APPS=["fencelock.guards.django"],
            USE_TZ=True,
        )
        django.setup()
    from django.db import connections

    for alias, given in databases.items():
        connections.settings[alias] = connections.configure_settings(
            {"default": {}, alias: dict(given)}
        )[alias]
