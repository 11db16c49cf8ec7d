"""What the lock of a play protects, and what a script asks of it.

It is read and written as it stands. As a database can, it also checks in the same step as it
changes: that nothing has changed since it was read, that a key was not used before, that enough is
left.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..errors import StaleFence, Unavailable
from ..judge.checkers.recipes import SKIPPED
from ..sim.resource import TIMEOUT_S, Desk, Register
from ..sim.tasks import Flag


class Word(int):
    """A number that stands for a text, and is shown as that: the judge compares numbers."""

    text: str
    version: int
    """How many writes the resource had taken when it was read."""

    def __new__(cls, number: int, text: str, version: int = 0) -> Word:
        word = super().__new__(cls, number)
        word.text, word.version = text, version
        return word

    def __str__(self) -> str:
        return self.text or "nothing"


class Update(NamedTuple):
    """A change that the resource makes by itself, or refuses, in one step."""

    verb: Literal["write", "insert", "take"]
    word: str = ""
    """What is written, or inserted after what is there."""
    key: str = ""
    """Which work it is, for the judge."""
    once: bool = False
    """The resource refuses a key that was used before."""
    version: int | None = None
    """It must not have changed since it was read."""
    number: int = 0
    """How many are taken, of those that are there."""


class Answer(NamedTuple):
    """What became of an update, and what is there now."""

    outcome: Literal["done", "changed", "used", "too few"]
    value: Word


class Resource(Register):
    """What the lock protects: a text, and the mark of the highest fence.

    The check of the package is ``on``. Two mistakes can be played instead: with ``writes`` reads
    are neither checked nor leave a mark; so they do with ``above``, which takes a fence only once.
    """

    def __init__(self, name: str, guard: str, text: str = "") -> None:
        super().__init__(guard != "off", name)
        self._guard = guard
        self._numbers: dict[str, int] = {}
        self.value = self.word("")
        self.value = self.word(text)
        self._keys: set[str] = set()
        self.writes = self.refused = 0

    def serve(self, fence: int, value: int | None, reading: bool = False) -> int:
        if value is not None:
            self._admit(fence)
            self._set(text_of(value))
        elif self._guard not in ("writes", "above"):
            self._admit(fence, reading)
        return self.word(self.text, self.writes)

    def update(self, fence: int, update: Update) -> Answer:
        """Change it, if the fence is not stale and what the update demands is so."""
        self._admit(fence)
        text, left = self.text, self._count()
        if update.version not in (None, self.writes):
            return Answer("changed", self.word(text))
        if update.once and update.key in self._keys:
            return Answer("used", self.word(text))
        if update.verb == "take":
            if left < update.number:
                return Answer("too few", self.word(text))
            text = str(left - update.number)
        elif update.verb == "insert":
            text = f"{text} {update.word}".strip()
        else:
            text = update.word
        if update.once:
            self._keys.add(update.key)
        self._set(text)
        return Answer("done", self.word(text))

    def _admit(self, fence: int, reading: bool = False) -> None:
        try:
            if self._guard == "above" and fence == self.marks.highest:
                raise StaleFence(name=self.name, offered=fence, highest=fence)
            self.check(fence, reading)
        except StaleFence:
            self.refused += 1
            raise

    def _set(self, text: str) -> None:
        self.value = self.word(text)
        self.writes += 1

    def _count(self) -> int:
        """How many are there; what is no number is none."""
        return int(self.text) if self.text.isascii() and self.text.isdigit() else 0

    def word(self, text: str, version: int = 0) -> Word:
        """The number that stands for a text."""
        number = self._numbers.setdefault(text, len(self._numbers))
        return Word(number, text, version)

    @property
    def text(self) -> str:
        """What it holds."""
        return text_of(self.value)

    def state(self) -> dict[str, Any]:
        """Its value, its mark, and how many writes it took and refused."""
        return {
            "value": self.text, "mark": self.marks.highest, "writes": self.writes,
            "refused": self.refused,
        }  # fmt: skip


class Clerk(Desk):
    """One actor's way to the resource, with what it did written down."""

    async def update(self, resource: Resource, fence: int, update: Update) -> Answer:
        """Have the resource change itself. To the judge that is a read and a write at the moment
        at which it does, and where it has a key, work that is done once."""
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
                if update.version is None:  # else it rests on what its client has read
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
    """What a number of the resource stands for."""
    return number.text if isinstance(number, Word) else ""


def version_of(number: int) -> int:
    """How many writes the resource had taken when this was read."""
    return number.version if isinstance(number, Word) else 0
