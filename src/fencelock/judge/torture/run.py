"""The settings, progress and result of a torture, and the promises that it is judged by."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from ..._client.pending import ECHO_S
from ...engine import Address, Engine
from ...model import Traits
from ...world import GRACE_S
from ..history import History
from ..promises import Promises
from ..verdict import Verdict
from .counters import SharedCounters
from .peers import OURS


class Settings(NamedTuple):
    """The settings of a torture."""

    url: str
    library: str = OURS
    seconds: float = 20.0
    faults: tuple[str, ...] = ("pause", "kill", "lose", "partition")
    clients: int = 4
    ttl: float = 1.0
    seed: int = 1
    semaphore: int = 0
    """The limit of the semaphore that is tortured; 0 for a mutex."""
    rw: bool = False
    """Whether a read/write lock is tortured."""

    @property
    def lock(self) -> str:
        """The kind of lock that is tortured, as text."""
        if self.rw:
            return "a read/write lock"
        return f"a semaphore of {self.semaphore}" if self.semaphore else "a mutex"


class Progress(NamedTuple):
    """The progress of a torture."""

    library: str
    elapsed: float
    seconds: float
    tenures: int
    faults: dict[str, int]
    lost: int
    refused: int
    phase: str = ""
    """What it does before and after its time, or an empty string."""


class Run(NamedTuple):
    """The result of one torture."""

    settings: Settings
    url: str
    """The URL of the engine, without its password."""
    traits: Traits | None
    """None for the lock of another library, whose promises are not known."""
    ttl: float
    """The longest time for which the engine keeps a lock for a client that sends nothing."""
    history: History
    promises: Promises
    verdict: Verdict
    faults: dict[str, int]
    not_applicable: dict[str, str]
    """Faults that could not be injected, and why."""
    counters: SharedCounters
    deaths: list[str]
    """Clients that ended without being killed, and why."""
    remark: str = ""
    """What a reader of the verdict must know of the engine."""
    unheard: str = ""
    """Why the engine did not answer in the end; empty if it did."""

    @property
    def passed(self) -> bool:
        """Whether no promise was broken; a lock without a fence must not lose an update either."""
        lost = self.traits is None and any(one.lost for one in self.counters.plain.values())
        return self.verdict.passed and not self.deaths and not lost

    @property
    def tenures(self) -> int:
        acquires = self.history.operations("acquire")
        return sum(one.outcome == "ok" for one in acquires)


SLACK_S = 0.25  # how late a process may be on a busy machine
SOON_S = 3.0
SESSION_SHARE = 0.75  # the share of a ZooKeeper session's timeout that a lease lasts at most
BOUND = (
    "the lock is bound to a session: when the network ends that, the lock is free at once, and its "
    "holder is told with the next renewal. Up to a third of a ttl with two holders is not counted"
)


def with_session(url: str, ttl: float) -> str:
    """Add a session timeout that fits the ttl to a ZooKeeper URL: a killed client keeps its locks
    for as long.

    The default is made for production, where nobody waits for a dead holder's session to end.
    """
    head, mark, options = url.partition("?")
    if not head.startswith("zookeeper://") or "session=" in options:
        return url
    return f"{head}?session={ttl / SESSION_SHARE:g}{'&' if mark else ''}{options}"


def is_session_bound(address: Address) -> bool:
    """Return whether the server frees a lock as soon as its holder's connection has ended."""
    modes = {"postgresql": ("advisory", "row"), "mysql": ("advisory",), "mariadb": ("advisory",)}
    return address.options.get("mode") in modes.get(address.scheme, ())


def session_of(engine: Engine) -> float:
    """Return the timeout of the session that carries all leases of a client, or 0 without one."""
    if engine.address.scheme != "zookeeper":
        return 0.0
    connection: Any = cast("Any", engine)._connection
    return float(connection.session_timeout)


def promised(traits: Traits | None, ttl: float, bound: bool = False) -> Promises:
    """Return the promises that a run is judged by. The lock of another library must do what every
    lock is for: it has one holder at a time while a lease lasts, and can be acquired again. It
    reports no loss.

    Where a lock is bound to a session, its holder is told of the end with its next renewal.
    """
    slack = SLACK_S + ttl / 3 if bound else SLACK_S
    return Promises(
        exclusive=True,
        fence=traits is not None and traits.fence,
        fifo=traits is not None and traits.fifo,
        guarded=traits is not None and traits.fence,
        ttl=ttl,
        slack=slack,
        told_within=None if traits is None else SOON_S,
        woken_within=ttl + SOON_S,
        freed_within=ttl + SOON_S,
        grace=None if traits is None else GRACE_S + SLACK_S,
        undone_within=None if traits is None else ECHO_S + SOON_S,
    )
