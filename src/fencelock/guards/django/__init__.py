"""Django: models with a fence, and a table of marks that a migration creates.

    class Stock(FencedModel): ...

    with client.lock("stock:42") as lease, transaction.atomic():
        stock = Stock.objects.fenced(lease).enter(pk=42)  # raises the mark of the row, reads it
        stock.amount -= 1
        stock.save(fence=lease)  # or StaleFence, and nothing is written

``FencedModel`` needs no more than that. For ``SqlGuard().enter(connection, lease)``, which protects
all changes of the transaction, put ``fencelock.guards.django`` into INSTALLED_APPS: its migration
creates the table of the marks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fenced import FencedModel, FencedQuerySet

__all__ = ["FencedModel", "FencedQuerySet"]


def __getattr__(name: str) -> Any:
    """Import the models at first use: Django imports an application before its models."""
    if name in __all__:
        from . import fenced

        return getattr(fenced, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
