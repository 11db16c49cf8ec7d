"""Report the outcome of a run to programs."""

from __future__ import annotations

import os

from .supervisor import Outcome


class Status:
    """The JSON object that ``--status-fd`` requests, filled in as things happen."""

    def __init__(self, descriptor: int | None, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self.outcome = "failed"
        self.wait_s = 0.0
        self.held_s = 0.0
        self.fence: int | None = None
        self.slot: int | None = None
        self.renewals = 0
        self.lost_reason: str | None = None
        self.child_code: int | None = None
        self.error: str | None = None

    def ran(self, outcome: Outcome) -> None:
        """Record how the command ran and ended."""
        self.child_code = outcome.code
        self.lost_reason = outcome.lost_reason
        self.outcome = "lost" if outcome.stopped else "timed_out" if outcome.timed_out else "ran"

    def write(self, code: int) -> None:
        """Write the object, if a descriptor was named."""
        if self._descriptor is None:
            return
        import json

        facts = {
            "schema": 1,
            "name": self._name,
            "outcome": self.outcome,
            "wait_s": round(self.wait_s, 6),
            "held_s": round(self.held_s, 6),
            "fence": self.fence,
            "slot": self.slot,
            "renewals": self.renewals,
            "lost_reason": self.lost_reason,
            "child_code": self.child_code,
            "exit_code": code,
            "error": self.error,
        }
        try:
            os.write(self._descriptor, json.dumps(facts).encode() + b"\n")
        except OSError:
            pass  # its reader is gone
