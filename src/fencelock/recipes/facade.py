"""Base class of the recipes in both flavors: everything that never waits."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex


class RecipeBase:
    """A description of a recipe: its name is what all who take part have in common."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        """What those who take part have in common."""
        return self._name

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        kind = type(self).__name__.lower()
        raise TypeError(
            f"{kind} cannot be copied or pickled: describe it again with another client"
        )

    def __repr__(self) -> str:
        flavor = "fencelock.aio" if type(self).__module__.endswith(".aio") else "fencelock"
        return f"<{flavor}.{type(self).__qualname__} {self.name!r}>"
