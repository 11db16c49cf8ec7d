"""The resource that the lock of a play protects, and the operations of a script on it.

It has plain reads and writes. As a database can, it also checks and changes its value in one step:
that nothing has changed since it was read, that a key was not used before, that enough is left.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..errors import StaleFence, Unavailable
from ..judge.checkers.recipes import SKIPPED
from ..sim.resource import TIMEOUT_S, Register, RegisterClient
from ..sim.tasks import Flag


class TextNumber(int):
    """A number that stands for a text, and is shown as the text: the judge compares numbers."""

    text: str
    version: int
    """How many writes the resource had accepted when it was read."""

    def __new__(cls, number: int, text: str, version: int = 0) -> TextNumber:
        text_number = super().__new__(cls, number)
        text_number.text, text_number.version = text, version
        return text_number

    def __str__(self) -> str:
        return self.text or "nothing"


class Update(NamedTuple):
    """A change that the resource checks and makes, or refuses, in one step."""

    verb: Literal["write", "insert", "take"]
    word: str = ""
    """The text that is written, or inserted after the present one."""
    key: str = ""
    """The key of the work, for the judge."""
    once: bool = False
    """Whether the resource refuses a key that was used before."""
    version: int | None = None
    """The version that the resource must still have; None for any."""
    number: int = 0
    """How many are taken, of those that are there."""


class Answer(NamedTuple):
    """The outcome of an update, and the value after it."""

    outcome: Literal["done", "changed", "used", "too few"]
    value: TextNumber


class Resource(Register):
    """What the lock protects: a text, and the mark of the highest fence.

    With ``on`` it checks as the package does. Two mistakes can be played instead: with ``writes``,
    reads are neither checked nor raise the mark; ``above`` does the same, and accepts a fence only
    once.
    """

    def __init__(self, name: str, guard: str, text: str = "") -> None:
        super().__init__(guard != "off", name)
        self._guard = guard
        self._numbers: dict[str, int] = {}
        self.value = self.number_of("")
        self.value = self.number_of(text)
        self._keys: set[str] = set()
        self.writes = self.refused = 0

    def serve(self, fence: int, value: int | None, reading: bool = False) -> int:
        if value is not None:
            self._admit(fence)
            self._set(text_of(value))
        elif self._guard not in ("writes", "above"):
            self._admit(fence, reading)
        return self.number_of(self.text, self.writes)

    def update(self, fence: int, update: Update) -> Answer:
        """Change the value, if the fence is not stale and the conditions of the update hold."""
        self._admit(fence)
        text, left = self.text, self._count()
        if update.version not in (None, self.writes):
            return Answer("changed", self.number_of(text))
        if update.once and update.key in self._keys:
            return Answer("used", self.number_of(text))
        if update.verb == "take":
            if left < update.number:
                return Answer("too few", self.number_of(text))
            text = str(left - update.number)
        elif update.verb == "insert":
            text = f"{text} {update.word}".strip()
        else:
            text = update.word
        if update.once:
            self._keys.add(update.key)
        self._set(text)
        return Answer("done", self.number_of(text))

    def _admit(self, fence: int, reading: bool = False) -> None:
        try:
            if self._guard == "above" and fence == self.marks.highest:
                raise StaleFence(name=self.name, offered=fence, highest=fence)
            self.check(fence, reading)
        except StaleFence:
            self.refused += 1
            raise

    def _set(self, text: str) -> None:
        self.value = self.number_of(text)
        self.writes += 1

    def _count(self) -> int:
        """Return the value as a number; 0 if it is not one."""
        return int(self.text) if self.text.isascii() and self.text.isdigit() else 0

    def number_of(self, text: str, version: int = 0) -> TextNumber:
        """Return the number that stands for a text."""
        number = self._numbers.setdefault(text, len(self._numbers))
        return TextNumber(number, text, version)

    @property
    def text(self) -> str:
        """The value, as text."""
        return text_of(self.value)

    def state(self) -> dict[str, Any]:
        """Return its value, its mark, and how many writes it accepted and calls it refused."""
        return {
            "value": self.text, "mark": self.marks.highest, "writes": self.writes,
            "refused": self.refused,
        }  # fmt: skip


class ResourceClient(RegisterClient):
    """One actor's access to the resource; it records every operation in the history."""

    async def update(self, resource: Resource, fence: int, update: Update) -> Answer:
        """Send an update to the resource. To the judge it is a read and a write at the moment of
        the change and, if it has a key, work that is done once."""
        client, history, network = self._world.name, self._history, self._network
        run = history.invoke(client, "run", update.key) if update.key else 0
        write = 0
        answers: list[Answer | StaleFence] = []
        answered = Flag()

        def arrive() -> None:
            nonlocal write
            before = resource.value
            try:
                answer: Answer | StaleFence = resource.update(fence, update)
            except StaleFence as error:
                answer = error
            if isinstance(answer, Answer) and answer.outcome == "done":
                if update.version is None:  # else it rests on the client's own read
                    op = history.invoke(client, "read", resource.name, fence)
                    history.end("ok", client, "read", op, resource.name, fence, before)
                write = history.invoke(client, "write", resource.name, fence, answer.value)
            what = f"{update.verb}: answer"
            network.datagram(resource, self._host, lambda: take(answer), what)

        def take(answer: Answer | StaleFence) -> None:
            answers.append(answer)
            answered.set()

        def ended(kind: str, value: int | None = None, detail: str = "") -> None:
            if write:
                history.end(kind, client, "write", write, resource.name, fence, value, detail)
            if run:
                history.end(kind, client, "run", run, update.key, 0, None, detail)

        await self._world.simulation.turn()
        network.datagram(self._host, resource, arrive, update.verb)
        await self._world.wait(answered, self._world.now() + TIMEOUT_S)
        if not answers:
            ended("unknown")
            raise Unavailable("the resource does not answer")
        answer = answers[0]
        if isinstance(answer, StaleFence):
            ended("fail", detail="stale")
            raise answer
        done = answer.outcome == "done"
        ended("ok" if done else "fail", answer.value, "" if done else SKIPPED)
        return answer


def text_of(number: int) -> str:
    """Return the text that a number of the resource stands for."""
    return number.text if isinstance(number, TextNumber) else ""


def version_of(number: int) -> int:
    """Return how many writes the resource had accepted when a number was read."""
    return number.version if isinstance(number, TextNumber) else 0
