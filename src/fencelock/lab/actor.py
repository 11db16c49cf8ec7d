"""An actor of a play: a process that runs its script, and records what happened."""

from __future__ import annotations

import math
from typing import Any

from ..errors import FencelockError, LeaseLost, StaleFence
from ..judge import History
from ..sim.network import Host, Network
from ..sim.world import Cancelled, SimWorld, Task
from ..world import sleep
from .clients import Client
from .document import Actor
from .recorder import Recorder
from .resource import Resource, ResourceClient, Update, text_of, version_of
from .script import Statement

ROUND = 6
AGAIN_S = 0.01  # before a script repeats, so that a loop always takes time


class Stopped(Exception):
    """The script ends early, though not because of an error."""


class Changed(Exception):
    """The value has changed since it was read: it has to be read again."""


class Process:
    """One actor."""

    def __init__(
        self,
        actor: Actor,
        world: SimWorld,
        host: Host,
        client: Client,
        network: Network,
        resource: Resource,
        history: History,
        recorder: Recorder,
    ) -> None:
        self.actor = actor
        self.name = actor.name
        self.world = world
        self.host = host
        self.client = client
        self._resource = resource
        self._resource_client = ResourceClient(network, resource, world, host, history)
        self._history = history
        self._recorder = recorder
        self._lock = ""
        self._op = 0
        self.line: int | None = None
        """The current line of the script, counted from 1; None if the script is not running."""
        self.is_told = False
        self._stops_on_loss = False
        self._read, self._version = "", 0
        self.retries = 0
        """How often it had to read again, because the value had changed."""
        self.task: Task | None = None

    def begin(self) -> None:
        """Start the script."""
        self.task = self.world.simulation.start(self._live(), self.world, "script")

    async def _live(self) -> None:
        script, at = self.actor.script, 0
        is_over = False
        try:
            await self.client.open()
        except FencelockError as error:  # a later request connects again
            self._tell("error", f"connects: {type(error).__name__}: {error}")
        while at < len(script):
            statement = script[at]
            if is_over and statement.verb != "release":
                at += 1
                continue
            self.line = at + 1
            self._recorder.look(self.name)
            try:
                await self._do(statement)
            except Cancelled:
                if self.world.simulation.is_over:
                    raise
                self._tell("cancelled", "is cancelled")
                is_over = True
            except Stopped as why:
                self._tell("stopped", str(why))
                is_over = True
            except Changed:
                self.retries += 1
                self._tell("conflict", f"{statement.text}: it has changed, and is read again")
                at = max(n for n, one in enumerate(script[:at]) if one.verb == "read")
                continue
            except StaleFence as error:
                self._tell(
                    "refused",
                    f"{statement.text}: refused, fence {{fence}} is below {{highest}}",
                    fence=error.offered or 0,
                    highest=error.highest or 0,
                )
                is_over = True
            except FencelockError as error:
                self._tell("error", f"{statement.text}: {type(error).__name__}: {error}")
                is_over = True
            if statement.verb == "again" and not is_over:
                at = self._first()
                await sleep(self.world, AGAIN_S)
            elif is_over and statement.verb == "acquire":
                break
            else:
                at += 1
        self.line = None
        self._recorder.look(self.name)

    def _first(self) -> int:
        """Return where ``again`` resumes: at the first line that does not wait for a moment."""
        return next(n for n, one in enumerate(self.actor.script) if one.verb != "at")

    async def _do(self, statement: Statement) -> None:
        world, word = self.world, statement.word
        match statement.verb:
            case "at":
                await sleep(world, max(0.0, statement.seconds - world.simulation.now))
            case "work":
                await sleep(world, statement.seconds)
            case "acquire":
                await self._acquire(statement)
            case "release":
                await self._release()
            case "read":
                seen = await self._resource_client.read(self.client.fence)
                self._read, self._version = text_of(seen), version_of(seen)
                self._tell("read", f"reads {self._read or 'nothing'}", fence=self.client.fence)
            case "write":
                await self._write(statement, word)
            case "append":
                await self._write(statement, f"{self._read} {word}".strip())
            case "insert":
                await self._insert(statement)
            case "take":
                await self._take(statement.number)
            case "check":
                await self._check()
            case "renew":
                await self._renew()
            case "stop on loss":
                self._stops_on_loss = True
            case "stop unless free" if self._read:
                raise Stopped(f"stops: {self._read} is there already")
            case _:
                pass

    async def _acquire(self, wanted: Statement) -> None:
        history, now = self._history, self.world.simulation.now
        deadline = 0.0 if wanted.timeout is None else now + wanted.timeout
        self._lock = wanted.word
        op = self._op = history.invoke(self.name, "acquire", wanted.word, deadline=deadline)
        kind, fence, ttl, detail = "unknown", 0, 0.0, ""
        try:
            ttl = await self.client.acquire(wanted)
            kind, fence, self.is_told = "ok", self.client.fence, False
        except FencelockError as error:
            kind, detail = "unknown" if error.may_have_happened else "fail", str(error)
            raise
        finally:
            known = 0.0 if math.isinf(ttl) else ttl
            history.end(kind, self.name, "acquire", op, wanted.word, fence, None, detail, known)
        held = " with fence {fence}" if fence else ""
        self._tell("granted", f"holds {wanted.word}{held}", fence=fence)

    async def _release(self) -> None:
        history, fence, freed = self._history, self.client.fence, False
        op = history.invoke(self.name, "release", self._lock, fence)
        kind = "unknown"
        try:
            freed = await self.client.release()
            kind = "ok" if freed else "fail"
        except FencelockError as error:
            kind = "unknown" if error.may_have_happened else "fail"
            raise
        finally:
            history.end(kind, self.name, "release", op, self._lock, fence)
        said = "releases it" if freed else "releases it: it was no longer its own"
        self._tell("released" if freed else "released late", said, fence=fence)

    async def _write(self, statement: Statement, text: str) -> None:
        if statement.unchanged:
            await self._update(Update("write", text, version=self._version))
        else:
            await self._resource_client.write(self.client.fence, self._resource.number_of(text))
        self._tell("written", f"writes {text}", fence=self.client.fence)

    async def _insert(self, statement: Statement) -> None:
        word, key = statement.word, statement.key
        if await self._update(Update("insert", word, key, once=statement.once)):
            what = f"inserts {word} for {key}" if key else f"inserts {word}"
            self._tell("written", what, fence=self.client.fence)
        else:
            self._tell("skipped", f"inserts nothing: {key} was done before")

    async def _take(self, number: int) -> None:
        if not await self._update(Update("take", number=number)):
            raise Stopped("stops: there are too few left to take")
        self._tell("written", f"takes {number}", fence=self.client.fence)

    async def _update(self, update: Update) -> bool:
        """Send an update to the resource; return whether it was done."""
        answer = await self._resource_client.update(self._resource, self.client.fence, update)
        if answer.outcome == "changed":
            raise Changed
        return answer.outcome == "done"

    async def _check(self) -> None:
        try:
            await self.client.check()
        except LeaseLost:
            self.lost(self.client.fence)
            raise
        self._tell("checked", "checks: still its own", fence=self.client.fence)

    async def _renew(self) -> None:
        await self.client.renew()
        self._tell("renewed", "renews it", fence=self.client.fence)

    def lost(self, fence: int) -> None:
        """Record that the client is told of its loss; cancel the script if it stops on loss."""
        if self.is_told:
            return
        self.is_told = True
        self._history.note(self.name, "lost", self._lock, fence)
        self._tell("told", "is told that its lease is lost", fence=fence)
        if self._stops_on_loss and self.task is not None:
            self.task.cancel()

    def revoked(self) -> None:
        """Record that a server has revoked its lease, of which the client will learn later."""
        self._history.note(self.name, "expired", self._lock, op=self._op, detail="revoked")

    def _tell(self, kind: str, words: str, **more: int) -> None:
        self._recorder.tell(self.name, kind, words, **{k: v for k, v in more.items() if v})
        self._recorder.look(self.name)

    def state(self) -> dict[str, Any]:
        """Return its state: the line of its script, what it believes, and its votes."""
        until, voted = self.client.believed_until(), self.client.voted()
        votes: dict[str, Any] = {}
        if voted is not None:
            valid = voted.valid_until
            votes = {
                "votes": voted.servers, "needed": voted.needed,
                "valid_until": None if valid is None else round(valid, ROUND),
            }  # fmt: skip
        return votes | {
            "line": self.line,
            "believes_until": None if until is None or math.isinf(until) else round(until, ROUND),
            "believes": until is not None,
            "told": self.is_told,
            "fence": self.client.fence,
            "frozen": self.host.is_paused,
            "up": not self.host.is_down,
        }
