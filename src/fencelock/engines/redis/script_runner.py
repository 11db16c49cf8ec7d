"""Run scripts and commands at the right server, and return their replies or raise our errors.

A script that the server does not know is sent whole, once. A server that is not the right one has
done nothing, so the next one is tried. Every other failure is an error of our tree: the protocol
decides what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hiredis import ReplyError

from ...errors import OutcomeUnknown, Unavailable
from ...world import World, sleep
from .errors import Moved, mapped
from .settings import Node, Settings, where
from .topology import Topology
from .wire import POOLS
from .wire.connection import Purpose, ScriptCall, Word, packed

HOP_S = 0.1  # between two tries while servers change their roles


class ScriptRunner:
    """Runs the scripts and commands of one client."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._request_timeout = settings.request_timeout
        self.pool = POOLS[world.flavor](world, settings)
        self.topology = Topology(settings, self.pool)

    async def run(self, call: ScriptCall, request_timeout: float, then: bytes = b"") -> Any:
        """Run a script for keys of one slot; ``then`` is a request that is sent along with it, and
        whose reply is returned as well."""
        node = self.topology.known(call.keys[0])
        request_timeout = min(request_timeout, self._request_timeout)
        if node is None:
            return await self._seek(call, request_timeout, "main", then)
        payload, count = call.packed() + then, 2 if then else 1
        try:
            replies = await self.pool.request(node, payload, count, request_timeout, "main")
        except (Unavailable, OutcomeUnknown) as error:
            self.topology.forget(node)
            if isinstance(error, OutcomeUnknown) or not self.topology.moves:
                raise
            return await self._seek(call, request_timeout, "main", then)
        if isinstance(replies[0], ReplyError):
            self._refused(node, replies[0])
            return await self._seek(call, request_timeout, "main", then)
        return replies if then else replies[0]

    async def rerun(self, call: ScriptCall, reply: ReplyError) -> Any:
        """Run a script again that the only server refused, if it only lacks the script's source."""
        assert self.topology.only is not None
        self._refused(self.topology.only, reply)
        return await self._seek(call, self._request_timeout, "main")

    def _refused(self, node: Node, reply: ReplyError) -> None:
        """Raise the error that a reply stands for, unless a retry, here or elsewhere, will do."""
        if str(reply).startswith("NOSCRIPT"):
            return
        error = mapped(str(reply), where(node))
        if not isinstance(error, Moved):
            raise error
        self.topology.forget(node)

    async def _seek(
        self, call: ScriptCall, request_timeout: float, purpose: Purpose, then: bytes = b""
    ) -> Any:
        """Run a script with its source, at the server that serves the key by now.

        While servers change their roles, a try has no effect, so it is repeated until the client's
        request_timeout or the caller's limit is over.
        """
        payload, count = call.packed_whole() + then, 2 if then else 1
        give_up = min(self._world.now() + self._request_timeout, self._world.limit())
        while True:
            try:
                node = await self.topology.find(call.keys[0])
                replies = await self.pool.request(node, payload, count, request_timeout, purpose)
                if not isinstance(replies[0], ReplyError):
                    return replies if then else replies[0]
                self._refused(node, replies[0])
                problem = Unavailable(f"no server took the request ({replies[0]}); try again")
            except Unavailable as error:
                self.topology.forget_all()
                problem = error
            if not self.topology.moves or self._world.now() + HOP_S >= give_up:
                raise problem
            await sleep(self._world, HOP_S)

    async def run_all(
        self, calls: Sequence[ScriptCall], request_timeout: float, purpose: Purpose
    ) -> list[Any]:
        """Run scripts for several slots: one write for each server."""
        answers: list[Any] = [None] * len(calls)
        by_node: dict[Node, list[int]] = {}
        for index, call in enumerate(calls):
            by_node.setdefault(await self.topology.find(call.keys[0]), []).append(index)
        for node, here in by_node.items():
            payload = b"".join(calls[index].packed() for index in here)
            try:
                replies = await self.pool.request(
                    node, payload, len(here), request_timeout, purpose
                )
            except (Unavailable, OutcomeUnknown) as error:
                self.topology.forget(node)
                if isinstance(error, OutcomeUnknown) or not self.topology.moves:
                    raise
                for index in here:  # nothing was sent: another server may serve it by now
                    answers[index] = await self._seek(calls[index], request_timeout, purpose)
                continue
            for index, reply in zip(here, replies, strict=True):
                if isinstance(reply, ReplyError):
                    self._refused(node, reply)
                    reply = await self._seek(calls[index], request_timeout, purpose)
                answers[index] = reply
        return answers

    async def command(self, *words: Word, node: Node | None = None) -> Any:
        """Run one plain command, at the given server or at any."""
        node = node or await self.topology.find("")
        (reply,) = await self.pool.request(node, packed(*words), 1, self._request_timeout, "main")
        if isinstance(reply, ReplyError):
            error = mapped(str(reply), where(node))
            raise Unavailable(str(error)) if isinstance(error, Moved) else error
        return reply
