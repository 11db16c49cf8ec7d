"""The Django application, whose migration creates the table of the marks."""

from __future__ import annotations

from django.apps import AppConfig


class GuardsConfig(AppConfig):
    """``INSTALLED_APPS = ["fencelock.guards.django", ...]``"""

    name = "fencelock.guards.django"
    label = "fencelock_guards"
    verbose_name = "Fencelock guards"
    default_auto_field = "django.db.models.BigAutoField"
