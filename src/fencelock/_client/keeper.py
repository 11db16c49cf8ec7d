"""Renew all leases of one client in the background, and decide when one is lost.

* One keeper per client; it sleeps until the earliest moment at which some lease needs it.
* Renewals that are due go to the engine in one request, together with those due soon.
* The request runs beside the keeper, so that a hanging engine cannot keep it from telling a
  holder in time.
* A renewal that fails is tried again until the holder's own deadline; then, and not before, the
  lease is lost.
* Nothing that a listener does (a log handler, a subscriber, a callback) runs in the keeper itself.
* A hold that has ended is never renewed again, and an answer that comes for it is thrown away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

from .. import observe
from ..engine import Engine
from ..model import Gone, Grant, Loss, counted_from, granted
from ..world import Job, World, sleep
from . import policy
from .events import timed
from .hold_state import HoldState
from .loss_notify import Notifier, tell_events, tell_failure, tell_loss

NEVER = float("inf")
NAP_MAX_S = 1.0  # timers stand still while a machine is suspended: look at the clock now and then
CALM_TTL_S, CALM_S = 6.0, 2.0  # a lease of at least this ttl is not due sooner than that
STUMBLE_S = 0.1  # after an error of our own, a pause before going on
BATCH_MAX = 200  # renewals in one request: enough to share its cost, few enough to be quick
IDLE_NAPS = 10  # naps with nothing to do; then a sleep that only a wake-up ends, which costs


class Keeper:
    """Renews the holds of one client, and declares them lost."""

    def __init__(self, world: World, engine: Engine) -> None:
        self._world = world
        self._engine = engine
        self.chore: Callable[[], None] | None = None
        """Called each time that the keeper looks at the holds; the client sets it."""
        self._generation = world.generation()
        self._notifier = Notifier(world)
        self.holds: dict[HoldState, None] = {}
        """The holds that have not ended, in the order in which they were added."""
        self._mutex = world.mutex()
        self._wake = world.signal()
        self._next = NEVER
        self._job: Job | None = None
        self._flight: Job | None = None
        self._flying = False
        self._idle_naps = 0
        self._closing = False
        self._asked: dict[HoldState, tuple[int, float]] = {}
        """How many renewals of a hold are under way, and the shortest ttl among them."""
        self._abandoned: deque[HoldState] = deque()
        self._plan = (0.0, 0.0, 0.0)
        """The moment and ttl of the last grant that was scheduled, and when its renewal is due."""

    def __len__(self) -> int:
        return len(self.holds)

    def held(self) -> list[HoldState]:
        """All holds that have not ended."""
        return list(self.holds)

    def add(self, hold: HoldState) -> None:
        """Renew a hold from now on, and declare it lost at its end.

        A hold that is not due before the keeper looks anyway is scheduled then: most have ended by
        that time.
        """
        self.holds[hold] = None  # first: either the keeper sees it, or we see when it looks next
        ttl, asked_at = hold.ttl, hold.grant.asked_at
        if ttl < CALM_TTL_S or hold.rare is not None or asked_at + CALM_S < self._next:
            self._schedule(hold)
            self._rouse(hold)
        if self._job is None:
            self._start()

    def drop(self, hold: HoldState) -> None:
        """Stop renewing a hold: it has ended, or its lease was collected."""
        self.holds.pop(hold, None)

    def abandon(self, hold: HoldState) -> None:
        """Stop renewing a hold whose lease was collected. A destructor calls this, so the next
        look emits the event.
        """
        self.drop(hold)
        if observe.subscribers:
            self._abandoned.append(hold)

    def lose(self, hold: HoldState, loss: Loss, reason: str) -> None:
        """Declare a hold lost, and tell its holder and the subscribers.

        Only the first call counts.
        """
        with self._mutex:
            if hold.released or hold.loss is not None:
                return
            error = hold.loss = hold.lost_error(loss, reason)
        self.drop(hold)
        tell_loss(self._world, self._notifier, hold, error)

    def on_gone(self, owners: Collection[str], gone: Gone) -> None:
        """Declare the holds of these owners lost: the engine has noticed it by itself."""
        for hold in self.held():
            if hold.grant.owner in owners:
                self.lose(hold, gone.loss, gone.reason)

    def retire(self, hold: HoldState) -> bool:
        """Mark a hold as ended by its holder; False when it had ended before."""
        self.holds.pop(hold, None)
        with self._mutex:
            first = not hold.released and hold.loss is None
            hold.released = True
        return first

    def expire_if_due(self, hold: HoldState, now: float) -> bool:
        """Declare a hold lost if the holder's own clock says so."""
        if hold.loss is None and not hold.released and hold.valid_until() <= now:
            self.lose(hold, "expired", hold.why_lapsed(hold in self._asked))
        return hold.loss is not None

    async def renew_now(self, hold: HoldState) -> None:
        """Renew one hold because the caller wants it; errors are raised."""
        await self._request([hold])

    def wake(self) -> None:
        """Have the keeper look at all holds now."""
        self._wake.set()

    def stop(self) -> None:
        """Have the keeper end, without waiting for it."""
        self._closing = True
        self.wake()

    async def close(self, deadline: float) -> None:
        """Stop, and wait for the keeper and a renewal under way, until the deadline."""
        self.stop()
        for job in (self._job, self._flight):
            if job is not None:
                await job.join(deadline)

    def _start(self) -> None:
        with self._mutex:
            if self._job is None:
                self._job = self._world.keep(self._run, "fencelock-keeper")

    async def _run(self) -> None:
        self._flying = False  # this may be a restart that missed the end of a renewal
        while not self._closing:
            if self._world.generation() != self._generation:
                return  # a forked child in which green threads go on: its parent renews
            try:
                self._attend()
                if self.chore is not None:
                    self.chore()
            except Exception as error:  # whatever it is, the keeper itself never dies of it
                text = f"an error in the keeper, which goes on renewing: {error!r}"
                self._notifier.tell(partial(observe.warn, text))
                await sleep(self._world, STUMBLE_S)
            await self._world.wait(self._wake, self._when())
            self._wake.clear()

    def _attend(self) -> None:
        now = self._world.now()
        if self._abandoned:
            events = [hold.event("abandoned") for hold in self._drain()]
            tell_events(self._notifier, events)
        holds = self.held()
        for hold in holds:
            if not hold.attend_at:
                self._schedule(hold)
        due = [hold for hold in holds if hold.attend_at <= now]
        if not due:
            return
        for hold in due:
            if not self.expire_if_due(hold, now) and not policy.may_renew(now, hold.hold_until):
                hold.attend_at = hold.valid_until()  # its max_hold ends soon: only that is left
        if self._flying:
            return  # one request at a time; its end wakes us
        batch = [t for t in holds if self._is_due(t, now) and not t.ended]
        if batch:
            self._flying = True
            try:
                self._flight = self._world.spawn(self._renew(batch), "fencelock-renewal")
            except Exception as error:
                self._flying = False
                self._failed(batch, error)

    def _drain(self) -> Iterator[HoldState]:
        while self._abandoned:
            yield self._abandoned.popleft()

    def _is_due(self, hold: HoldState, now: float) -> bool:
        return (
            hold.renews
            and hold.attend_at <= policy.grouped_until(now, hold.ttl)
            and policy.may_renew(now, hold.hold_until)
        )

    def _when(self) -> float | None:
        """Return the next moment to look, or None to sleep until a wake-up.

        While it is computed, every hold that is added wakes the keeper, to be safe.
        """
        self._next = NEVER
        holds = list(self.holds)
        if holds:
            self._idle_naps = 0
            soonest = min(t.valid_until() if self._flying else t.attend_at for t in holds)
        else:
            self._idle_naps += 1
            if self._idle_naps > IDLE_NAPS:
                return None
            soonest = NEVER
        self._next = min(soonest, self._world.now() + NAP_MAX_S)
        return self._next

    async def _renew(self, due: list[HoldState]) -> None:
        try:
            for start in range(0, len(due), BATCH_MAX):
                if self._world.generation() != self._generation:
                    return
                batch = [t for t in due[start : start + BATCH_MAX] if not t.ended]
                if batch:
                    await self._renew_batch(batch)
        finally:
            self._flying = False
            self._wake.set()

    async def _renew_batch(self, batch: list[HoldState]) -> None:
        try:
            await self._request(batch)
        except Exception as error:
            self._failed(batch, error)

    async def _request(self, batch: Sequence[HoldState]) -> None:
        now = self._world.now()
        with self._mutex:
            wanted = [self._ask(hold, now) for hold in batch]
        try:
            if observe.callers:
                answers = await timed(self._world, self._engine, self._engine.renew, wanted)
            else:
                answers = await self._engine.renew(wanted)
            self._take(batch, answers)
        finally:
            with self._mutex:
                for hold in batch:
                    self._answered(hold)

    def _ask(self, hold: HoldState, now: float) -> Grant:
        """Return the grant to renew. From now on a shorter ttl counts, and the longer one does not.

        Requests that are under way together may be served in any order: the shortest ttl counts.
        """
        ttl = policy.asked_ttl(hold.ttl, now, hold.hold_until)
        others, shortest = self._asked.get(hold, (0, ttl))
        self._asked[hold] = (others + 1, min(ttl, shortest))
        old = hold.grant
        if hold.rare is not None and hold.delay:  # the engine keeps it for longer than its ttl
            wanted = old._replace(ttl=ttl + hold.delay)
        elif ttl == old.ttl:
            return old
        else:
            wanted = None
        new = granted(old.name, old.owner, old.fence, ttl, now, old.share)
        if new.valid_until < old.valid_until:
            hold.grant = new
            self._schedule(hold)
            self._rouse(hold)
        return wanted or new

    def _answered(self, hold: HoldState) -> None:
        others, shortest = self._asked.pop(hold)
        if others > 1:
            self._asked[hold] = (others - 1, shortest)

    def _take(self, batch: Sequence[HoldState], answers: Sequence[Grant | Gone]) -> None:
        told: list[observe.Event] | None = [] if observe.subscribers else None
        now = self._world.now() if told is not None else 0.0
        for hold, answer in zip(batch, answers, strict=True):
            if isinstance(answer, Gone):
                late = answer.loss == "expired" and self.expire_if_due(hold, self._world.now())
                if not late:  # else our own clock has told it, with a better reason
                    self.lose(hold, answer.loss, answer.reason)
            elif not hold.ended:
                _, shortest = self._asked[hold]
                if answer.ttl > shortest:
                    name, owner, fence, _, _, _, share = answer
                    since = counted_from(answer)
                    answer = granted(name, owner, fence, shortest, since, share)
                slack = hold.valid_until() - now if told is not None else 0.0
                hold.grant = answer
                hold.failure = None
                hold.renewals += 1
                if told is not None:
                    told.append(hold.event("renewed", slack=max(0.0, slack)))
                self._schedule(hold)
                self._rouse(hold)
        if told:
            tell_events(self._notifier, told)

    def _failed(self, tried: Sequence[HoldState], error: Exception) -> None:
        batch = [hold for hold in tried if not hold.ended]
        if not batch:
            return
        now = self._world.now()
        for hold in batch:
            hold.failure = error
            hold.attend_at = min(policy.retry_at(now, hold.ttl), hold.valid_until())
        tell_failure(self._notifier, batch, error)

    def _schedule(self, hold: HoldState) -> None:
        _, _, _, ttl, asked_at, valid_until, _ = hold.grant
        if hold.renews and (hold.rare is None or hold.hold_until is None):
            moment, same_ttl, due = self._plan
            if asked_at is not moment or ttl is not same_ttl:
                due = policy.renew_at(asked_at, ttl)
                if due > valid_until:
                    due = valid_until
                self._plan = (asked_at, ttl, due)
            hold.attend_at = due  # one float object for all grants of one moment
            return
        end = hold.valid_until()
        hold.attend_at = min(end, policy.renew_at(asked_at, ttl)) if hold.renews else end

    def _rouse(self, hold: HoldState) -> None:
        if hold.attend_at < self._next:  # the keeper would look too late
            self._wake.set()
