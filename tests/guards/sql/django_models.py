"""Models of a site that guards its rows. Import it when the site is ready."""

from __future__ import annotations

from django.db import models

from fencelock.guards.django import FencedModel


class Row(FencedModel):
    """A counter."""

    name = models.CharField(max_length=64, primary_key=True)
    value = models.BigIntegerField()
    fence_read = models.BigIntegerField(null=True, editable=False)  # for readers, by RowGuard
    fence_write = models.BigIntegerField(null=True, editable=False)

    class Meta:
        app_label = "shop"


class Shelf(FencedModel):
    """Something with a number of its own and a neighbor."""

    place = models.CharField(max_length=20)
    amount = models.IntegerField(default=0)
    beside = models.ForeignKey("self", null=True, on_delete=models.SET_NULL)

    class Meta:
        app_label = "shop"
