"""Runs scripts and commands at the right server, and says what became of them.

A script that the server does not know is sent whole, once. A server that is not the right one has
done nothing, so the next one is asked. Everything else that goes wrong is an error of our tree: the
protocol decides what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hiredis import ReplyError

from ...errors import OutcomeUnknown, Unavailable
from ...world import World, sleep
from .replies import Moved, mapped
from .route import Route
from .scripts import Script
from .settings import Node, Settings
from .wire import Lane, Word, make_wire, packed

HOP_S = 0.1  # between two tries while servers change their roles


class Job(NamedTuple):
    """What a script is run with."""

    keys: Sequence[str]
    words: Sequence[Word]


class Dispatch:
    """One client's way to its servers."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._request_timeout = settings.request_timeout
        self.wire = make_wire(world, settings)
        self.route = Route(settings, self.wire)

    async def run(
        self,
        script: Script,
        keys: tuple[str, ...],
        first: str,
        words: tuple[Word, ...],
        request_timeout: float,
        then: bytes = b"",
    ) -> Any:
        """Run a script for keys of one slot; the reply to a request sent along with it is added."""
        node = self.route.known(keys[0])
        request_timeout = min(request_timeout, self._request_timeout)
        if node is None:
            return await self._seek(
                script, Job(keys, (first, *words)), request_timeout, "main", then
            )
        payload = packed("EVALSHA", script.digest, str(len(keys)), *keys, first, *words) + then
        try:
            replies = await self.wire.call(node, payload, 2 if then else 1, request_timeout, "main")
        except (Unavailable, OutcomeUnknown) as error:
            self.route.forget(node)
            if isinstance(error, OutcomeUnknown) or not self.route.moves:
                raise
            return await self._seek(
                script, Job(keys, (first, *words)), request_timeout, "main", then
            )
        if isinstance(replies[0], ReplyError):
            self._refused(node, replies[0])
            return await self._seek(
                script, Job(keys, (first, *words)), request_timeout, "main", then
            )
        return replies if then else replies[0]

    async def again(
        self, script: Script, keys: tuple[str, ...], words: tuple[Word, ...], reply: ReplyError
    ) -> Any:
        """Run a script that the only server refused, if sending it whole is all that it needs."""
        assert self.route.only is not None
        self._refused(self.route.only, reply)
        return await self._seek(script, Job(keys, words), self._request_timeout, "main")

    def _refused(self, node: Node, reply: ReplyError) -> None:
        """Raise what an error reply means, unless sending it again, or elsewhere, will do."""
        if str(reply).startswith("NOSCRIPT"):
            return
        error = mapped(str(reply), f"{node[0]}:{node[1]}")
        if not isinstance(error, Moved):
            raise error
        self.route.forget(node)

    async def _seek(
        self, script: Script, job: Job, request_timeout: float, lane: Lane, then: bytes = b""
    ) -> Any:
        """Run it where it can be run: with its source, at the server that serves the key by now.

        While servers change their roles, all that is tried does nothing, so it is tried for as
        long as the caller's request_timeout lasts.
        """
        keys, words = job
        payload = packed("EVAL", script.source, str(len(keys)), *keys, *words) + then
        give_up = min(self._world.now() + self._request_timeout, self._world.limit())
        while True:
            try:
                node = await self.route.find(keys[0])
                replies = await self.wire.call(
                    node, payload, 2 if then else 1, request_timeout, lane
                )
                if not isinstance(replies[0], ReplyError):
                    return replies if then else replies[0]
                self._refused(node, replies[0])
                problem = Unavailable(f"no server took the request ({replies[0]}); try again")
            except Unavailable as error:
                self.route.forget_all()
                problem = error
            if not self.route.moves or self._world.now() + HOP_S >= give_up:
                raise problem
            await sleep(self._world, HOP_S)

    async def run_all(
        self, script: Script, jobs: Sequence[Job], request_timeout: float, lane: Lane
    ) -> list[Any]:
        """Run a script for several slots: one write for each server."""
        answers: list[Any] = [None] * len(jobs)
        places: dict[Node, list[int]] = {}
        for place, job in enumerate(jobs):
            places.setdefault(await self.route.find(job.keys[0]), []).append(place)
        for node, here in places.items():
            payload = b"".join(
                packed("EVALSHA", script.digest, str(len(job.keys)), *job.keys, *job.words)
                for job in (jobs[place] for place in here)
            )
            try:
                replies = await self.wire.call(node, payload, len(here), request_timeout, lane)
            except (Unavailable, OutcomeUnknown) as error:
                self.route.forget(node)
                if isinstance(error, OutcomeUnknown) or not self.route.moves:
                    raise
                for place in here:  # nothing was sent: another server may serve it by now
                    answers[place] = await self._seek(script, jobs[place], request_timeout, lane)
                continue
            for place, reply in zip(here, replies, strict=True):
                if isinstance(reply, ReplyError):
                    self._refused(node, reply)
                    reply = await self._seek(script, jobs[place], request_timeout, lane)
                answers[place] = reply
        return answers

    async def command(self, *words: Word, node: Node | None = None) -> Any:
        """One plain command, at a node or at any."""
        node = node or await self.route.find("")
        (reply,) = await self.wire.call(node, packed(*words), 1, self._request_timeout, "main")
        if isinstance(reply, ReplyError):
            error = mapped(str(reply), f"{node[0]}:{node[1]}")
            raise Unavailable(str(error)) if isinstance(error, Moved) else error
        return reply
