"""An observer of a Redlock engine's votes: which servers granted, and until when that is valid.

All values are the engine's own: the answers that its broadcast has so far, and the grant that it
made of them. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engines.redlock.fanout import Broadcast
from ..engines.redlock.quorum import Election, Renewal, majority
from ..engines.redlock.votes import is_grant
from ..model import Busy, Gone, Grant, Request
from .edge_fanout import Edge


class Votes:
    """The votes of one process: of its current broadcast, or of the lease that it holds."""

    def __init__(self, edge: Edge, engine: Any) -> None:
        self._nodes = list(edge.nodes)
        self.needed = majority(len(self._nodes))
        self._round: Broadcast | None = None
        self._grant: Grant | None = None
        edge.on_broadcast = self._begun
        self._acquire, self._renew = engine.acquire, engine.renew
        self._release, self._withdraw = engine.release, engine.withdraw
        engine.acquire, engine.renew = self.acquire, self.renew
        engine.release, engine.withdraw = self.release, self.withdraw

    def _begun(self, broadcast: Broadcast) -> None:
        """Note the broadcast that has begun, if it is an election or a renewal."""
        if isinstance(getattr(broadcast.count_vote, "__self__", None), Election | Renewal):
            self._round = broadcast

    def forget(self) -> None:
        """Forget the broadcast and the grant: the process holds nothing any more."""
        self._round = self._grant = None

    def granted(self) -> list[str]:
        """Return the names of the servers that have granted, in the order of the nodes."""
        answers = [] if self._round is None else self._round.answers
        is_yes = is_grant
        if self._round is not None and isinstance(
            getattr(self._round.count_vote, "__self__", None), Renewal
        ):
            is_yes = _extends
        return [node for node, answer in zip(self._nodes, answers, strict=False) if is_yes(answer)]

    @property
    def valid_until(self) -> float | None:
        """When, on the clock of the process, the last grant ends; None without a grant."""
        return None if self._grant is None else self._grant.valid_until

    # The engine's methods, wrapped

    async def acquire(self, request: Request) -> Grant | Busy:
        self.forget()
        try:
            answer: Grant | Busy = await self._acquire(request)
        except BaseException:
            self.forget()
            raise
        if isinstance(answer, Grant):
            self._grant = answer
        else:
            self.forget()
        return answer

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: list[Grant | Gone] = await self._renew(grants)
        for answer in answers:
            if isinstance(answer, Grant):
                self._grant = answer
            else:
                self.forget()
        return answers

    async def release(self, grant: Grant) -> bool:
        self.forget()
        freed: bool = await self._release(grant)
        return freed

    async def withdraw(self, request: Request) -> None:
        self.forget()
        await self._withdraw(request)


def _extends(answer: Any) -> bool:
    """Return whether a server has extended the only lease in a renewal."""
    return answer.__class__ is list and not answer
