"""The faults that the page offers: each kind with its fields and first values."""

from __future__ import annotations

from typing import Any

from .document import FAULTS, IMPOSSIBLE, LASTING, OF_ACTORS, OF_SERVERS, OF_WAYS

SIGNS = {
    "pause": ("❄", "freeze a process"),
    "crash": ("✕", "kill a process"),
    "restart": ("↻", "restart a process"),
    "cancel": ("⊘", "cancel a script"),
    "step": ("◷", "step a clock"),
    "pace": ("≈", "run a clock faster or slower"),
    "freeze": ("❄", "freeze a server"),
    "reboot": ("▼", "take a server down"),
    "amnesia": ("∅", "take a server down, and let it forget"),
    "cut": ("✂", "cut a network way"),
    "slow": ("…", "slow a network way down"),
    "lose reply": ("⇠", "lose the next message"),
    "revoke": ("⚑", "take the lock from its holder"),
}
FIRST: dict[str, dict[str, Any]] = {
    "pause": {"for": 5}, "restart": {"for": 1}, "step": {"by": 2}, "pace": {"by": 1.5, "for": 5},
    "freeze": {"for": 5}, "reboot": {"for": 2}, "amnesia": {"for": 1}, "cut": {"for": 5},
    "slow": {"by": 1, "for": 5},
}  # fmt: skip
"""The values of the fields when a fault is added, besides its time and its target."""


def palette() -> list[dict[str, Any]]:
    """Return every kind of fault: its kind of target, sign, text, fields, and first values.

    ``not_at`` are the engines for which it makes no sense.
    """
    return [_entry(kind) for kind in FAULTS]


def _entry(kind: str) -> dict[str, Any]:
    of = [name for name, kinds in (("actor", OF_ACTORS), ("server", OF_SERVERS), ("way", OF_WAYS))
          if kind in kinds]  # fmt: skip
    fields = ["at"]
    if kind in LASTING or kind in ("pace", "restart"):
        fields.append("for")
    if kind in ("step", "slow", "pace"):
        fields.append("by")
    if kind in ("cut", "slow"):
        fields.append("one_way")
    sign, words = SIGNS[kind]
    return {
        "kind": kind, "of": of[0] if of else "lock", "sign": sign, "words": words,
        "fields": fields, "first": FIRST.get(kind, {}),
        "not_at": [engine for engine, impossible in IMPOSSIBLE if impossible == kind],
    }  # fmt: skip
