"""The fault profiles of a `MemoryRun`: what may befall its clients and their messages."""

from __future__ import annotations

from typing import NamedTuple

from fencelock._client.policy import RETRY_MAX_S, UNKNOWN_TRIES


class FaultProfile(NamedTuple):
    """What may befall the clients and their messages."""

    delay_max: float = 0.02
    request_timeout: float = 10.0
    """How long a client waits for an answer."""
    lost: float = 0.0
    """The chance that a message is lost."""
    refused: float = 0.0
    """The chance that a request is refused."""
    cancels: float = 0.0
    """The chance, at each step, that somebody is cancelled."""
    pauses: int = 0
    crashes: int = 0
    revokes: int = 0

    @property
    def is_prompt(self) -> bool:
        """Whether whoever is offered the lock can answer in time."""
        return self.delay_max <= 0.05 and not self.lost and not self.refused

    @property
    def is_kind(self) -> bool:
        """Whether everybody can clean up after itself."""
        return not self.lost and not self.refused and not self.crashes

    @property
    def slowest_call(self) -> float:
        """The longest that asking may take, with a few tries and the breaths between them."""
        if self.lost or self.refused:
            return 4 * (UNKNOWN_TRIES * self.request_timeout + RETRY_MAX_S)
        return 2 * self.delay_max


FAULT_PROFILES = {
    "calm": FaultProfile(),
    "cancels": FaultProfile(cancels=0.01),
    "pauses": FaultProfile(pauses=5),
    "crashes": FaultProfile(crashes=2, pauses=1),
    "revokes": FaultProfile(revokes=5),
    "losses": FaultProfile(lost=0.05, refused=0.05, request_timeout=0.1),
    "slow": FaultProfile(delay_max=1.5, cancels=0.005),
    "storm": FaultProfile(
        delay_max=0.1,
        request_timeout=0.15,
        lost=0.03,
        refused=0.03,
        cancels=0.005,
        pauses=3,
        crashes=1,
        revokes=1,
    ),
}
