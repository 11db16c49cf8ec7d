"""Tickets: which requests wait through this node, and which poll would return the answer.

A ticket is soft: the position in the queue is the engine's. It is the signal that the engine sets
when its waiter should look again, and belongs to one poll, or for ``KEEP_S`` to none.

* A newer poll of an inbox ends the older one and takes its tickets over.
* Without a poll nobody looks, so that nobody claims a lock: a client that is gone never gets one.
  When its turn may have come, the ticket is swept out at once: the engine passes over a waiter that
  does not claim, or is given back what it has handed over. Only a client that polls again, because
  it was granted something or has just begun to wait, has ``CLAIM_S`` for that.
* A ticket that nobody polled for ``KEEP_S`` is swept out, too. Its client may poll at another node
  under the same id: it keeps its position there, and what it was granted there. Only where no other
  node can have the owner's position, or where the first in the queue holds the lock by being there,
  is all of it withdrawn.
* What the engine has not confirmed is tried again, for a ttl: an entry in a queue that nobody knows
  of becomes a holder that nobody knows of. The ticket stays so long, for a client that comes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from .._client import policy
from ..errors import EngineError, FencelockError, OutcomeUnknown
from ..model import Busy, Grant, Request
from .call import Call
from .node import CALL_S, Node
from .problems import RETRY_IN_S, Problem
from .ticket import Poll, Ticket

KEEP_S = 10.0
CLAIM_S = 1.0  # between two polls of one client: a turn that comes then is not lost
RETRY_CLAIM_S = RETRY_IN_S + CLAIM_S  # after an error: a client is told when to send again
AT_ONCE = 64  # engine calls of one poll
LEAVE_MIN_S, LEAVE_MAX_S = 0.5, 5.0  # between two tries to leave a queue


class Tickets:
    """The tickets of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._by_owner: dict[str, Ticket] = {}
        self._polls: dict[tuple[str, str], Poll] = {}
        self._count: Counter[str] = Counter()
        self._wake = node.world.signal()

    def __len__(self) -> int:
        return len(self._by_owner)

    async def begin(self, call: Call, inbox: str | None, requests: Iterable[Request]) -> Poll:
        """Begin a poll, which takes over from an older one of the same inbox or the same ids."""
        poll, wanted = Poll(call, inbox), list(requests)
        self._refuse_too_many(call, wanted)
        if inbox is not None:
            older = self._polls.get((call.identity.name, inbox))
            self._polls[call.identity.name, inbox] = poll
            if older is not None:
                older.superseded = True
                older.call.wake.set()
                self._keep(older, CLAIM_S)
        new = [self._attach(poll, request) for request in wanted]
        try:
            for ticket in new:
                if ticket is not None:
                    await self._node.engine.watch(ticket.request, ticket)
        except BaseException:
            await self._drop(poll, [one for one in poll.tickets.values() if not one.joined])
            self._keep(poll)
            raise
        return poll

    def _attach(self, poll: Poll, request: Request) -> Ticket | None:
        """Have a poll wait for a request; return its ticket if that is new."""
        ticket = self._by_owner.get(request.owner)
        is_new = ticket is None
        if ticket is None:
            ticket = Ticket(request, poll.call.identity.name, self._wake)
            self._add(ticket)
        elif ticket.leave_by is not None:  # its client is back
            is_new, ticket.leave_by = True, None
            ticket.request, ticket.woken = request, True
        elif ticket.request != request:
            ticket.request, ticket.woken = request, True
        older = ticket.poll
        if older is not None and older is not poll:
            older.tickets.pop(request.owner, None)  # its tickets may be about to be dropped
            older.superseded = True
            older.call.wake.set()
        ticket.poll = poll
        poll.tickets[request.owner] = ticket
        if ticket.joined and poll.inbox is None:  # the same attempt, sent again: the same doubt
            poll.joined.add(request.owner)
        return ticket if is_new else None

    def _add(self, ticket: Ticket) -> None:
        self._by_owner[ticket.request.owner] = ticket
        self._count[ticket.identity] += 1

    def _refuse_too_many(self, call: Call, wanted: Sequence[Request]) -> None:
        new = sum(request.owner not in self._by_owner for request in wanted)
        most = call.identity.quota.waiting
        if most is not None and self._count[call.identity.name] + new > most:
            raise Problem("quota", f"{most} may wait at a time", retry_in=KEEP_S)
        if len(self._by_owner) + new > self._node.limits.waiting_max:
            raise Problem("quota", "This node has too many waiters", retry_in=KEEP_S)

    async def granted(self, poll: Poll, deadline: float) -> list[Grant]:
        """Wait until the engine has granted something, the deadline has passed or the poll is over.

        An error is raised if nothing was granted; else the grants are returned in spite of it. It
        is an OutcomeUnknown where the call may have put a request into the queue.
        """
        world, wake, node = self._node.world, poll.call.wake, self._node
        while True:
            now = world.now()
            due = [t for t in poll.tickets.values() if t.woken or t.look_at <= now]
            try:
                granted = await self._look(poll, due)
            except (EngineError, Problem) as error:
                if poll.joined:
                    raise OutcomeUnknown(f"a request may be in the queue, and {error}") from error
                raise
            if poll.superseded or len(poll.tickets) < len(due):
                granted = [grant for grant in granted if self._is_for(poll, grant)]
            ended = poll.superseded or poll.call.gone or node.draining or not poll.tickets
            if granted or ended or world.now() >= deadline:
                return granted
            look_at = min(ticket.look_at for ticket in poll.tickets.values())
            await world.wait(wake, min(deadline, look_at))
            wake.clear()
            if poll.call.gone or poll.superseded or node.draining:
                return []  # nobody would read it: leave it to the next poll

    async def _look(self, poll: Poll, due: Sequence[Ticket]) -> list[Grant]:
        world, answers = self._node.world, list[Grant | Exception | None]()
        if len(due) == 1:
            grant = await self._look_at(poll, due[0])
            return [] if grant is None else [grant]
        for first in range(0, len(due), AT_ONCE):
            thunks = [self._thunk(poll, ticket) for ticket in due[first : first + AT_ONCE]]
            answers += await world.gather(thunks, world.now() + 2 * CALL_S)
        granted = [answer for answer in answers if isinstance(answer, Grant)]
        errors = [answer for answer in answers if isinstance(answer, Exception)]
        if errors and not granted:
            unknown = [error for error in errors if isinstance(error, OutcomeUnknown)]
            raise (unknown or errors)[0]
        return granted

    def _is_for(self, poll: Poll, grant: Grant) -> bool:
        """Return whether a grant is for this poll: else a newer poll, or a release, takes it.

        A lock that is given back meanwhile is given back in the turn after the one that got it.
        """
        if grant.owner in poll.tickets:
            return True
        ticket = self._by_owner.get(grant.owner)
        if ticket is not None:
            ticket.set()  # it looks again, and finds the same grant
        return False

    def _thunk(self, poll: Poll, ticket: Ticket) -> Callable[[], Coroutine[Any, Any, Grant | None]]:
        return lambda: self._look_at(poll, ticket)

    async def _look_at(self, poll: Poll, ticket: Ticket) -> Grant | None:
        """Return the grant of a ticket, or None. A grant is counted from no earlier than the poll.

        The holder counts from when it sent the poll: after a push that came before, the request is
        sent to the engine again, which makes the lease last a whole ttl from then.
        """
        node, request = self._node, ticket.request
        was_woken, ticket.woken = ticket.woken, False
        handed = node.engine.pushed_grant(request)
        if handed is None or handed.asked_at < poll.call.received_at:
            try:
                answer = await node.in_turn(request.owner, partial(self._request, poll, ticket))
            except BaseException:
                self._pass_on(poll, ticket)
                raise
        else:
            answer = handed
        now = node.world.now()
        if answer is None:
            if was_woken:
                self._pass_on(poll, ticket)
            return None
        if isinstance(answer, Busy):
            ticket.position = answer.position
            node.tally.waiting(request, answer.position)
            ticket.look_at = policy.look_at(now, answer.look_in, node.world.random())
            return None
        if answer.valid_until <= now:
            try:
                await node.take_back_late(request, poll.call)
            except EngineError:
                ticket.joined = False
                poll.joined.discard(request.owner)
                raise
        return answer

    def _pass_on(self, poll: Poll, ticket: Ticket) -> None:
        """Leave a push to the next look, because this one did not learn what it was about.

        A newer poll that has taken the ticket over sleeps already, and is woken.
        """
        if ticket.poll is poll:
            ticket.woken = True
        else:
            ticket.set()

    async def _request(self, poll: Poll, ticket: Ticket) -> Grant | Busy | None:
        """Send the request, unless another call took over or withdrew it while others had turns."""
        if ticket.poll is not poll or ticket.withdrawn:
            return None
        try:
            answer = await self._node.call_engine(self._node.engine.acquire, ticket.request)
        except Problem:
            raise  # the engine was not asked
        except BaseException:  # an error of a waiter may come after it has joined the queue
            self._join(poll, ticket)
            raise
        self._join(poll, ticket)
        return answer

    def _join(self, poll: Poll, ticket: Ticket) -> None:
        if not ticket.joined:
            ticket.joined = True
            poll.joined.add(ticket.request.owner)

    async def end(
        self,
        poll: Poll,
        granted: Sequence[Grant],
        goes_on: bool = False,
        failed: bool = False,
    ) -> None:
        """End a poll: drop the tickets of what was granted, and keep the others for a while.

        A client that ``goes_on``, as one does whose newer call has ended this one, polls here
        again: a turn that comes meanwhile waits for that, or others would be served before it. So
        does one whose poll has ``failed``, after a while.
        """
        for grant in granted:
            ticket = poll.tickets.pop(grant.owner, None)
            if ticket is not None:
                await self.drop(ticket)
        self._keep(poll, RETRY_CLAIM_S if failed else CLAIM_S if granted or goes_on else 0.0)

    async def drop_all(self, poll: Poll, outcome: str) -> list[Request]:
        """End a poll whose tickets are not kept; return its requests."""
        tickets = list(poll.tickets.values())
        await self._drop(poll, tickets, outcome)
        return [ticket.request for ticket in tickets]

    async def _drop(
        self, poll: Poll, tickets: Sequence[Ticket], outcome: str = "unavailable"
    ) -> None:
        for ticket in tickets:
            poll.tickets.pop(ticket.request.owner, None)
        for ticket in tickets:
            self._node.tally.left(ticket.request, outcome)
            await self.drop(ticket)

    def leave_later(self, request: Request, identity: str, nameless: bool) -> None:
        """Withdraw a request that nobody polls for in the background, until that is confirmed.

        A ``nameless`` one has an id that no client knows: all of it is taken back.
        """
        if self._node.draining:  # the sweeper has ended
            if nameless:
                undo = self._node.try_to_take_back(request)
                self._node.world.spawn(undo, "fencelock-take-back")
        elif request.owner not in self._by_owner:
            ticket = Ticket(request, identity, self._wake)
            ticket.is_nameless, ticket.joined = nameless, True
            self._add(ticket)
            self._leave_again(ticket)

    def _leave_again(self, ticket: Ticket) -> None:
        """Have the sweeper try, again after a while, to leave the queue."""
        now, ttl = self._node.world.now(), ticket.request.ttl
        if ticket.leave_by is None:
            ticket.leave_by = now + ttl
        tried = now - (ticket.leave_by - ttl)
        ticket.woken = False
        ticket.kept_until = now + min(max(tried, LEAVE_MIN_S), LEAVE_MAX_S)
        self._wake.set()

    async def forget(self, owner: str) -> None:
        """Stop waiting for this owner: its lock was given back, or its request was withdrawn."""
        if (ticket := self._by_owner.get(owner)) is not None:
            ticket.withdrawn = True
            await self.leave(owner)

    async def leave(self, owner: str) -> None:
        """Stop waiting for this owner: another call returns its grant."""
        ticket = self._by_owner.get(owner)
        if ticket is not None:
            if ticket.poll is not None:
                ticket.poll.tickets.pop(owner, None)
                ticket.poll.superseded |= ticket.poll.inbox is None
                ticket.poll.call.wake.set()
            self._node.tally.left(ticket.request, "cancelled")
            await self.drop(ticket)

    async def drop(self, ticket: Ticket) -> None:
        """Forget a ticket, and end its watch."""
        self._remove(ticket)
        try:
            await self._node.engine.unwatch(ticket.request)
        except FencelockError:
            pass  # the connection that would push a grant is gone
        other = self._by_owner.get(ticket.request.owner)
        if other is not None:  # another poll began to wait for it meanwhile
            try:
                await self._node.engine.watch(other.request, other)
            except FencelockError:
                pass  # its poll looks by itself, and the sweeper must not end here
            other.set()

    def _remove(self, ticket: Ticket) -> None:
        if self._by_owner.get(ticket.request.owner) is ticket:
            del self._by_owner[ticket.request.owner]
            self._count[ticket.identity] -= 1
            if not self._count[ticket.identity]:
                del self._count[ticket.identity]

    def _keep(self, poll: Poll, claim_s: float = 0.0) -> None:
        """Keep the tickets of an ended poll, for ``claim_s`` even those whose turn comes."""
        key = (poll.call.identity.name, poll.inbox or "")
        if self._polls.get(key) is poll:
            del self._polls[key]
        now = self._node.world.now()
        for ticket in poll.tickets.values():
            ticket.poll, ticket.kept_until, ticket.claim_until = None, now + KEEP_S, now + claim_s
        poll.tickets = {}
        self._wake.set()

    def wake_all(self) -> None:
        """Wake all polls, so that they check whether they should go on."""
        for ticket in self._by_owner.values():
            if ticket.poll is not None:
                ticket.poll.call.wake.set()

    async def sweep(self) -> None:
        """Sweep out the tickets without a poll whose time is over, with what was pushed to them."""
        world = self._node.world
        while not self._node.draining:
            now = world.now()
            for ticket in [ticket for ticket in self._by_owner.values() if ticket.poll is None]:
                if _ends_at(ticket) <= now:
                    await self._try_to_sweep_out(ticket)
            left = [_ends_at(one) for one in self._by_owner.values() if one.poll is None]
            await world.wait(self._wake, min(left, default=now + KEEP_S))
            self._wake.clear()

    async def _try_to_sweep_out(self, ticket: Ticket) -> None:
        try:
            await self._node.in_turn(ticket.request.owner, partial(self._sweep_out, ticket))
        except Exception as error:  # a defect of the engine must not end this for all others
            self._node.log(f"a waiter was forgotten, and ends by itself: {error!r}")

    async def _sweep_out(self, ticket: Ticket) -> None:
        """Forget a ticket, in the turn of its owner, unless a call polls for it again."""
        request = ticket.request
        if ticket.poll is not None or self._by_owner.get(request.owner) is not ticket:
            return
        if self._node.has_call(request.owner):
            ticket.kept_until = self._node.world.now() + KEEP_S
            ticket.claim_until = self._node.world.now() + CLAIM_S
            return
        if ticket.leave_by is None:
            self._node.tally.left(request, "cancelled")
            await self.drop(ticket)
        else:
            self._remove(ticket)
        if ticket.leave_by is not None and ticket.leave_by <= self._node.world.now():
            self._node.log("a waiter did not leave the queue within its ttl, and ends by itself")
            return
        try:
            await self._node.leave(request, ticket.is_nameless)
        except (FencelockError, Problem) as error:
            if ticket.leave_by is None:
                self._node.log(f"a waiter has not left the queue, which is tried again: {error}")
            other = self._by_owner.get(request.owner)
            if other is None:
                self._add(ticket)
                self._leave_again(ticket)
            else:  # its client is back, and waits in the same place
                other.joined = True


def _ends_at(ticket: Ticket) -> float:
    """Return when a ticket that nobody polls for is forgotten."""
    return min(ticket.claim_until, ticket.kept_until) if ticket.woken else ticket.kept_until
