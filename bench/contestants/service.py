"""Fencelock's lock service over Redis: its own clients, and bare requests of HTTP."""

from __future__ import annotations

import re
from typing import ClassVar

from bench.contestant import Target
from bench.load import Loaded, Turns, body_of, post
from bench.lock_service import OnService
from bench.ours import Ours, OursAio

MODULES = ("uvicorn", "httptools", "msgspec", "h11", "redis", "hiredis")
FENCE = re.compile(rb'"fence":(\d+)')
WAITING = {
    "idle": (
        Target("requests", "at most", 0.05),
        Target("connections", "at most", 1.0),
    ),
    "renewals": (
        Target("requests", "at most", 20.0),
        Target("lost", "at most", 0.0),
    ),
}
TURNS = (
    Target("handoffs", "at least", 2_000.0),
    Target("requests", "at most", 3.0),
    Target("overtaking", "at most", 0.0),
    Target("overlaps", "at most", 0.0),
)


class ServiceThreads(OnService, Ours):
    """The client engine, from threads; beside the same engine without a service in between."""

    name = "fencelock service"
    works = frozenset({"pair", "threads", "handoff", "idle", "renewals"})
    needs = MODULES
    idle_s = 60.0  # a poll takes 20 s, and a waiter looks by itself once a minute
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 5.0, "fencelock redis"),),
        "threads": (Target("pairs", "at least", 1 / 5, "fencelock redis"),),
        "handoff": TURNS,
        **WAITING,
    }

    def url(self) -> str:
        return self.base


class ServiceAio(OnService, OursAio):
    """The client engine, from asyncio."""

    name = "fencelock service asyncio"
    works = frozenset({"pair", "tasks", "handoff", "idle", "renewals", "crowd"})
    needs = MODULES
    idle_s = ServiceThreads.idle_s
    targets: ClassVar = {
        "pair": (Target("wall_us", "at most", 5.0, "fencelock redis asyncio"),),
        "handoff": TURNS,
        "crowd": (Target("more_mb", "at most", 80.0),),
        **WAITING,
    }

    def url(self) -> str:
        return self.base


class ServiceLoad(OnService, Loaded):
    """Requests as any language sends them; each has an id of its own."""

    name = "fencelock service requests"
    works = frozenset({"load"})
    needs = MODULES
    targets: ClassVar = {
        "load": (
            Target("pairs", "at least", 0.3, "redis engine alone"),
            Target("pairs", "at least", 0.3, "raw redis requests"),
            Target("pairs", "at least", 3.0, "FastAPI service"),
        )
    }

    def turns(self, name: str) -> Turns:
        turn = 0
        while True:
            turn += 1
            words = f'"name":"{name}","id":"{name}-{turn}"'.encode()
            answer = body_of((yield post("/v1/acquire", b"{%b}" % words)))
            found = FENCE.search(answer)
            assert found is not None
            lease = b'{"leases":[{%b,"fence":%b}]}' % (words, found[1])
            if b"true" not in body_of((yield post("/v1/release", lease))):
                raise RuntimeError("the lock was lost")
