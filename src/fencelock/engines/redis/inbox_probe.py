"""Ping the subscription of a client by itself, while somebody waits.

A connection may lead nowhere while all others work: a router has forgotten it. A heartbeat goes
over another connection and proves nothing about this one. A server that stands still answers
nowhere: then the subscription stays, and with it the order of those who wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..waiters import HEARTBEAT_S
from .wire.connection import Subscription

PING_S = 1.0  # a subscription that was pinged so lately is not pinged for a new waiter
PONG_S = 2.0  # how long a reply may take at most
LATER_S = 0.5  # how much later it may come than a reply on another connection


class InboxProbe:
    """When the subscription was pinged, and by when it must have answered."""

    def __init__(self, now: Callable[[], float], request_timeout: float) -> None:
        self._now = now
        self._pong_s = min(PONG_S, request_timeout)
        self._pinged_at = self._ping_at = self._pong_by = 0.0
        self._server_answers = False
        """Whether the server has answered on another connection since the ping."""

    def begin(self) -> None:
        """Count from now: the server has just answered the request to subscribe."""
        self._pinged_at = self._now()
        self._ping_at = self._pinged_at + HEARTBEAT_S

    def hurry(self) -> bool:
        """Ping soon, for a new waiter; return whether that is earlier than planned."""
        soon = self._pinged_at + PING_S
        is_earlier = self._ping_at > soon
        if is_earlier:
            self._ping_at = soon
        return is_earlier

    def ping_if_due(self, subscription: Subscription, now: float) -> float:
        """Ping unless a reply is awaited; return when to come back."""
        if not subscription.unanswered:
            if now < self._ping_at:
                return self._ping_at
            self._pinged_at, self._ping_at = now, now + HEARTBEAT_S
            self._pong_by, self._server_answers = now + self._pong_s, False
            subscription.ping()
        return self._pong_by

    async def leads_nowhere(self, ask_server: Callable[[], Awaitable[object]]) -> bool:
        """Return whether the reply is overdue although the server answers another connection.

        ``ask_server`` raises if it does not.
        """
        if self._now() < self._pong_by:
            return False
        if self._server_answers:
            return True
        await ask_server()
        self._server_answers, self._pong_by = True, self._now() + LATER_S
        return False
