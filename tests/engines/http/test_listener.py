"""Whom a poll names: only owners that stand in the queue by the service's last word."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencelock import observe
from fencelock.engine import Engine
from fencelock.engines.http import listener
from fencelock.engines.http.messages import LOOK_S
from fencelock.model import Busy, Grant, Request
from fencelock.testing.conformance.context import core_of, engine_of
from tests.engines.http.answers import Said, Stub
from tests.faults.flavors import SOON, Lab, run

A, B, C, D = (Request(name, name * 32, 60.0, queue=True) for name in "abcd")
QUEUED = Said(202, {"schema": 1, "position": 0})


class Service:
    """A service that answers an acquire when it is told to, and ends a poll when a newer comes."""

    def __init__(self, peer: Stub) -> None:
        self.polls: list[set[str]] = []
        self.leases: dict[str, int] = {}
        """Fences of names that are granted when they are asked for."""
        self.slow = ""
        """A name that is answered only after ``go``."""
        self.asked, self.go, self._change = threading.Event(), threading.Event(), Change()
        peer.answers["/v1/acquire"] = self._acquire
        peer.answers["/v1/wait"] = self._wait
        peer.say("/v1/withdraw", Said(200, {"schema": 1, "withdrawn": 1}))

    def _acquire(self, body: dict[str, Any]) -> Said:
        name = body["name"]
        if name == self.slow:
            self.asked.set()
            self.go.wait(SOON)
        if name in self.leases:
            return Said(200, {"schema": 1, "fence": self.leases[name], "ttl": 600.0, "waited": 0.0})
        return QUEUED

    def _wait(self, body: dict[str, Any]) -> Said:
        number = self._change.next(lambda: self.polls.append({w["name"] for w in body["wants"]}))
        self._change.wait_for(lambda: self._change.number > number or self._is_granted(body))
        newer = self._change.number > number
        granted = [
            {"id": w["id"], "fence": self.leases[w["name"]], "ttl": 600.0, "waited": 0.0}
            for w in body["wants"]
            if w["name"] in self.leases
        ]
        return Said(200, {"schema": 1, "granted": granted, "waiting": [], "superseded": newer})

    def _is_granted(self, body: dict[str, Any]) -> bool:
        return any(want["name"] in self.leases for want in body["wants"])

    def grant(self, name: str) -> None:
        self._change.tell(lambda: self.leases.update({name: 7}))

    def end(self) -> None:
        self.go.set()
        self._change.next(lambda: None)


class Change:
    """A number of polls that others wait for."""

    def __init__(self) -> None:
        self.number = 0
        self._condition = threading.Condition()

    def next(self, act: Callable[[], object]) -> int:
        with self._condition:
            act()
            self.number += 1
            self._condition.notify_all()
            return self.number

    def tell(self, act: Callable[[], object]) -> None:
        with self._condition:
            act()
            self._condition.notify_all()

    def wait_for(self, holds: Callable[[], bool]) -> bool:
        with self._condition:
            return self._condition.wait_for(holds, SOON)


@pytest.fixture
def service(peer: Stub) -> Iterator[Service]:
    found = Service(peer)
    yield found
    found.end()


async def engine(lab: Lab, peer: Stub) -> Engine:
    client = await lab.connect(peer.url)
    await core_of(client).ready()
    return engine_of(client)


async def begin_to_wait(asked: Engine, request: Request) -> None:
    """Wait for a lock, as one does who was queued at once."""
    answer = await asked.acquire(request)
    assert isinstance(answer, Busy)
    assert answer.queued
    await asked.watch(request, asked.world.signal())


def first_with(service: Service, name: str) -> set[str]:
    return next((poll for poll in service.polls if name in poll), set())


def test_no_poll_names_an_owner_before_it_is_queued(
    flavor: str, peer: Stub, service: Service
) -> None:
    """An owner whose first try came to nothing watches, then asks for its place in the queue."""

    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer)
        await asked.watch(A, asked.world.signal())
        await begin_to_wait(asked, B)
        await lab.until(lambda: first_with(service, "b"), "a poll for b")
        assert first_with(service, "b") == {"b"}
        assert isinstance(await asked.acquire(A), Busy)
        await lab.until(lambda: first_with(service, "a"), "a poll for a")
        assert first_with(service, "a") == {"a", "b"}

    run(flavor, scenario)


def test_no_poll_names_an_owner_whose_own_call_is_under_way_or_was_granted(
    flavor: str, peer: Stub, service: Service
) -> None:
    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer)
        await begin_to_wait(asked, A)
        await begin_to_wait(asked, B)
        await lab.until(lambda: {"a", "b"} in service.polls, "a poll for both")
        service.slow = "a"
        look = lab.start(asked.acquire(A))
        await lab.until(service.asked.is_set, "the call of a")
        await begin_to_wait(asked, C)
        await lab.until(lambda: first_with(service, "c"), "a poll for c")
        assert first_with(service, "c") == {"b", "c"}
        service.leases["a"] = 7
        service.go.set()
        assert isinstance(await look.result(), Grant)
        await begin_to_wait(asked, D)
        await lab.until(lambda: first_with(service, "d"), "a poll for d")
        assert first_with(service, "d") == {"b", "c", "d"}

    run(flavor, scenario)


@pytest.mark.parametrize("how", ["granted", "withdrawn"])
def test_no_poll_names_an_owner_that_got_its_lock_or_withdrew(
    how: str, flavor: str, peer: Stub, service: Service
) -> None:
    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer)
        await begin_to_wait(asked, A)
        await lab.until(lambda: first_with(service, "a"), "a poll for a")
        if how == "granted":
            service.grant("a")
            await lab.until(lambda: asked.pushed_grant(A), "the grant of a")
        else:
            await asked.withdraw(A)
        await begin_to_wait(asked, B)
        await lab.until(lambda: first_with(service, "b"), "a poll for b")
        assert first_with(service, "b") == {"b"}

    run(flavor, scenario)


def test_a_client_with_more_waiters_than_a_poll_names_says_so_once(
    flavor: str, peer: Stub, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who came last are not polled for: nobody would guess why they wait so long."""
    told: list[str] = []
    monkeypatch.setattr(listener, "BATCH_MAX", 2)
    monkeypatch.setattr(observe, "_sink", told.append)

    async def wait_for_poll(lab: Lab, asked: Engine, request: Request) -> None:
        before = len(service.polls)
        await begin_to_wait(asked, request)
        await lab.until(lambda: len(service.polls) > before, "another poll")
        assert service.polls[-1] == {"a", "b"}

    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer)
        for request in (A, B):
            await begin_to_wait(asked, request)
        await lab.until(lambda: {"a", "b"} in service.polls, "a poll for two")
        assert told == []
        await wait_for_poll(lab, asked, C)
        await wait_for_poll(lab, asked, D)
        assert len(told) == 1
        assert told[0].startswith("more than 2 waiters of one client")

    run(flavor, scenario)


def test_who_is_polled_for_does_not_look_by_itself_as_well(
    flavor: str, peer: Stub, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 waiters would be some requests in each second, for nothing."""
    monkeypatch.setattr(listener, "BATCH_MAX", 2)

    async def scenario(lab: Lab) -> None:
        asked, looks = await engine(lab, peer), list[float]()
        for request in (A, B, C):
            await asked.watch(request, asked.world.signal())
            answer = await asked.acquire(request)
            assert isinstance(answer, Busy)
            looks.append(answer.look_in)
        polled = listener.POLLED_LOOK_S
        assert looks == [polled, polled, LOOK_S]

    run(flavor, scenario)
