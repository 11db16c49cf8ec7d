"""The reader of documents: plain JSON, checked to the last field before anything is played.

An error names the position, as in ``actors.A.script line 2: ...``. A document is bounded, so it is
safe to play one that comes from somebody else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from ..errors import UsageError
from .script import TIME_MAX_S, Statement, read_statement
from .switches import chosen
from .value import NAME, Value

ACTORS_MAX, SERVERS_MAX, FAULTS_MAX, LINES_MAX, STEPS_MAX = 8, 7, 50, 200, 50
HOSTS_MAX = ACTORS_MAX + SERVERS_MAX
SEED_MAX = 2**53 - 1
FENCE_OF = re.compile(r"\{([^{}]*)\}")

Client = Literal["fencelock", "textbook", "local", "none"]
Guard = Literal["on", "off", "writes", "above"]
GUARDS: dict[object, Guard] = {True: "on", False: "off", "writes": "writes", "above": "above"}
SERVERS = {"store": 1, "redis": 1, "redlock": 5, "zookeeper": 3, "service": 3}
SERVICE = ("store", "node-1", "node-2")
SESSION_MIN_S, SESSION_MAX_S = 1.0, 40.0  # the timeouts that a simulated ensemble grants
RECIPES = {
    "acquire": ("set nx px", "get then set"),
    "release": ("lua", "del", "get then del"),
    "renew": ("off", "watchdog"),
}
OF_ACTORS = ("pause", "crash", "restart", "cancel")
OF_SERVERS = ("step", "pace", "freeze", "reboot", "amnesia")
OF_WAYS = ("cut", "slow", "lose reply")
FAULTS = (*OF_ACTORS, *OF_SERVERS, *OF_WAYS, "revoke")
IMPOSSIBLE = {
    ("store", "pace"): "no lease ends by the clock of the store",
    ("service", "pace"): "no lease ends by the clock of the store or of a node",
    ("zookeeper", "amnesia"): "a member writes its log before it answers, and is not played "
    "without it; say reboot",
}
LASTING = ("pause", "freeze", "cut", "slow", "reboot", "amnesia")
TOUCHES = ("read", "write", "append", "insert", "take")
EXPECTED = (
    "register", "refused", "broken", "granted", "told", "released", "writes", "stopped",
    "woken", "retries",
)  # fmt: skip


class Actor(NamedTuple):
    """One process with its script."""

    name: str
    client: Client
    script: tuple[Statement, ...]
    recipe: Mapping[str, str]
    """How a textbook client acquires, releases and renews."""


class Fault(NamedTuple):
    """One thing that goes wrong."""

    kind: str
    at: float
    seconds: float = 0.0
    """How long it lasts; infinite if it is never undone."""
    whom: str = ""
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    one_way: bool = False
    by: float = 0.0
    """Seconds by which a clock steps or a message is late; or the pace of a clock."""


class Step(NamedTuple):
    """A narrator's text for a moment."""

    at: float
    say: str


class Document(NamedTuple):
    """A scenario, as it is played."""

    title: str
    seed: int
    until: float
    engine: str
    options: Mapping[str, Any]
    """The options of the engine."""
    servers: tuple[str, ...]
    lock: str
    """The name of the lock, if the scripts have one."""
    actors: tuple[Actor, ...]
    resource: str
    guard: Guard
    value: str
    """The initial value of the resource."""
    delay: tuple[float, float]
    faults: tuple[Fault, ...]
    steps: tuple[Step, ...]
    expect: Mapping[str, Any] | None


def read(raw: object) -> Document:
    """Check and convert a document, with its switches at their first choices; raise UsageError if
    it is wrong."""
    whole = Value(raw, "")
    top = Value(chosen(whole.mapping()), "")
    top.only(
        "v", "title", "about", "seed", "until", "engine", "actors", "resource", "network",
        "faults", "steps", "expect", "quiz",
    )  # fmt: skip
    if top.get("v").raw != 1:
        raise UsageError(f"v: this is version 1 of documents, not {top.get('v').raw!r}")
    top.get("about").text("")
    _check_quiz(whole.get("quiz"), whole.get("switches"))
    until = top.get("until").number(0.001, TIME_MAX_S)
    kind, servers, options = _servers(top.get("engine"))
    resource, guard, value = _resource(top.get("resource"))
    actors = _actors(top.get("actors"), kind, {*servers, resource})
    lock = _lock(actors)
    fenceless = [
        one.name
        for one in actors
        if one.client != "fencelock" and any(line.verb in TOUCHES for line in one.script)
    ]
    if guard != "off" and fenceless:
        raise UsageError(
            f"resource.guard: {fenceless[0]} has no fence that a guard could compare: set it to "
            "false, or let every actor be a fencelock client"
        )
    if guard != "off":
        for actor in actors:
            _check_fence(actor)
    for actor in actors:
        for number, line in enumerate(actor.script, 1):
            if line.verb == "take" and not (value.isascii() and value.isdigit()):
                raise UsageError(
                    f"actors.{actor.name}.script line {number}: resource.value must be a whole "
                    "number, of which something can be taken"
                )
    names = {one.name for one in actors}
    faults = top.get("faults").items(FAULTS_MAX)
    steps = top.get("steps").items(STEPS_MAX)
    return Document(
        top.get("title").text(),
        top.get("seed").whole(0, SEED_MAX, 1),
        until,
        kind,
        options,
        servers,
        lock,
        actors,
        resource,
        guard,
        value,
        _delay(top.get("network")),
        tuple(_fault(one, kind, names, servers, resource) for one in faults),
        tuple(_step(one, names, until) for one in steps),
        _expect(top.get("expect")),
    )


def _servers(engine: Value) -> tuple[str, tuple[str, ...], Mapping[str, Any]]:
    engine.only("kind", "nodes", "session")
    kind = engine.get("kind").text()
    if kind not in SERVERS:
        raise UsageError(f"{engine.where}.kind: there is no {kind!r}, but {', '.join(SERVERS)}")
    nodes, session, options = engine.get("nodes"), engine.get("session"), dict[str, Any]()
    count = SERVERS[kind]
    if kind == "redlock":
        count = nodes.whole(3, SERVERS_MAX, count)
        if count % 2 == 0:
            raise UsageError(f"{nodes.where}: 3, 5 or 7 servers, not {count}")
    elif nodes.raw is not None:
        what = "one server" if count == 1 else f"{count} servers"
        what = "a store and two nodes" if kind == "service" else what
        raise UsageError(f"{nodes.where}: {kind} is {what}")
    if session.raw is not None:
        if kind != "zookeeper":
            raise UsageError(f"{session.where}: only zookeeper has sessions")
        options["session"] = session.number(SESSION_MIN_S, SESSION_MAX_S)
    if count == 1:
        return kind, (kind,), options
    if kind == "service":
        return kind, SERVICE, options
    one = "redis" if kind == "redlock" else kind
    return kind, tuple(f"{one}-{number}" for number in range(1, count + 1)), options


def _resource(resource: Value) -> tuple[str, Guard, str]:
    resource.only("name", "guard", "value")
    guard: Any = resource.get("guard").raw
    guard = True if guard is None else guard
    if not isinstance(guard, bool | str) or guard not in GUARDS:
        raise UsageError(f"{resource.where}.guard: true, false, writes or above, not {guard!r}")
    value = resource.get("value")
    text = "" if value.raw is None else " ".join(value.text().split())
    return resource.get("name").name("resource"), GUARDS[guard], text


def _actors(actors: Value, kind: str, taken: set[str]) -> tuple[Actor, ...]:
    entries = actors.entries()
    if not 1 <= len(entries) <= ACTORS_MAX:
        raise UsageError(f"actors: there are 1 to {ACTORS_MAX} of them, not {len(entries)}")
    found = [_actor(name, one, kind, taken) for name, one in entries.items()]
    lines = sum(len(one.script) for one in found)
    if lines > LINES_MAX:
        raise UsageError(f"actors: their scripts have {lines} lines, {LINES_MAX} at the most")
    return tuple(found)


def _actor(name: str, actor: Value, kind: str, taken: set[str]) -> Actor:
    where = actor.where
    if not NAME.fullmatch(name):
        raise UsageError(f"{where}: a name is 1 to 20 letters, digits, _ and -, a letter first")
    if name in taken:
        raise UsageError(f"{where}: {name} is already the name of a server or of the resource")
    actor.only("client", "script", "recipe")
    client = actor.get("client").choice("fencelock", "textbook", "local", "none")
    if client == "textbook" and kind not in ("redis", "redlock"):
        raise UsageError(f"{where}.client: the textbook recipe is for redis and redlock")
    recipe = actor.get("recipe")
    recipe.only(*RECIPES)
    if recipe.raw is not None and client != "textbook":
        raise UsageError(f"{recipe.where}: only a textbook client has a recipe")
    lines = actor.get("script").items(LINES_MAX)
    script = tuple(
        read_statement(line.text(), f"{where}.script line {number}")
        for number, line in enumerate(lines, 1)
    )
    held = read = 0
    for number, statement in enumerate(script, 1):
        read = number if statement.verb == "read" else read
        if statement.unchanged and not read:
            raise UsageError(
                f"{where}.script line {number}: there is no read before it, and what was not read "
                "cannot be unchanged"
            )
        _check_statement(cast("Client", client), statement, f"{where}.script line {number}")
        if held and statement.verb in ("acquire", "again"):
            raise UsageError(
                f"{where}.script line {number}: the lock of line {held} is not released yet, and "
                "would be waited for"
            )
        held = {"acquire": number, "release": 0}.get(statement.verb, held)
    if script and not any(one.verb == "acquire" for one in script) and client != "none":
        raise UsageError(f"{where}.script: nothing is acquired; say client none if that is meant")
    choices = {part: recipe.get(part).choice(*known) for part, known in RECIPES.items()}
    return Actor(name, cast("Client", client), script, choices)


def _check_statement(client: Client, statement: Statement, where: str) -> None:
    verb = statement.verb
    if client == "none" and verb in ("acquire", "release", "renew", "check", "stop on loss"):
        raise UsageError(f"{where}: client none has no lock: leave {verb!r} out")
    if statement.forever and client == "fencelock":
        raise UsageError(f"{where}: fencelock has no lease without an end: give it a ttl")
    if client == "local" and verb in ("renew", "check", "stop on loss"):
        raise UsageError(f"{where}: a mutex of one process has no {verb!r}")
    if client == "textbook" and verb == "stop on loss":
        raise UsageError(f"{where}: nobody tells a textbook client of a loss")


def _check_fence(actor: Actor) -> None:
    """Refuse a script that touches a guarded resource before it has a fence."""
    for number, statement in enumerate(actor.script, 1):
        if statement.verb == "acquire":
            return
        if statement.verb in TOUCHES:
            raise UsageError(
                f"actors.{actor.name}.script line {number}: the resource is guarded, and there is "
                "no fence before the first acquire"
            )


def _lock(actors: Sequence[Actor]) -> str:
    names = {one.word: None for actor in actors for one in actor.script if one.verb == "acquire"}
    if len(names) > 1:
        raise UsageError(f"actors: all acquire the same lock, not {' and '.join(names)}")
    return next(iter(names), "")


def _delay(network: Value) -> tuple[float, float]:
    network.only("delay")
    delay = network.get("delay")
    if delay.raw is None:
        return 0.005, 0.02
    bounds = [one.number(0.0, 10.0) for one in delay.items(2)]
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise UsageError(f"{delay.where}: two numbers, the smaller first, not {delay.raw!r}")
    return bounds[0], bounds[1]


def _fault(
    fault: Value, engine: str, actors: set[str], servers: Sequence[str], resource: str
) -> Fault:
    kind = fault.get("kind").choice(*FAULTS, first_is_default=False)
    if (engine, kind) in IMPOSSIBLE:
        raise UsageError(f"{fault.where}.kind: {IMPOSSIBLE[engine, kind]}")
    at = fault.get("at").number(0.0, TIME_MAX_S)
    fields = ["kind", "at"]
    found = Fault(kind, at)
    if kind in LASTING or kind in ("pace", "restart"):
        fields.append("for")
        default = 0.0 if kind == "restart" else math.inf
        found = found._replace(seconds=fault.get("for").number(0.0, TIME_MAX_S, default))
    if kind in OF_ACTORS or kind in OF_SERVERS:
        fields.append("whom")
        there = sorted(actors) if kind in OF_ACTORS else list(servers)
        found = found._replace(whom=fault.get("whom").choice(*there, first_is_default=False))
        if kind == "amnesia" and engine == "service" and found.whom != "store":
            raise UsageError(f"{fault.where}.kind: a node remembers nothing anyway; say reboot")
    if kind in OF_WAYS:
        fields += ["from", "to"]
        known = {*actors, *servers, resource}
        found = found._replace(
            sources=fault.get("from").hosts(known, HOSTS_MAX),
            targets=fault.get("to").hosts(known, HOSTS_MAX),
        )
        within = {*found.sources, *found.targets} <= {*servers}
        if kind == "lose reply" and engine == "zookeeper" and within:
            raise UsageError(
                f"{fault.where}: members lose nothing that they say to each other; cut the way"
            )
    if kind in ("cut", "slow"):
        fields.append("one_way")
        found = found._replace(one_way=fault.get("one_way").flag(False))
    if kind in ("step", "slow", "pace"):
        fields.append("by")
        least, most = {"step": (-86_400.0, 86_400.0), "slow": (0.0, 60.0), "pace": (0.5, 2.0)}[kind]
        found = found._replace(by=fault.get("by").number(least, most))
    fault.only(*fields)
    return found


def _step(step: Value, actors: set[str], until: float) -> Step:
    step.only("at", "say")
    say = step.get("say").text()
    for place in FENCE_OF.findall(say):
        name, _, what = place.partition(".")
        if name not in actors or what != "fence":
            raise UsageError(f"{step.where}.say: {{{place}}} is unknown; {{A.fence}} is that of A")
    return Step(step.get("at").number(0.0, until), say)


def _check_quiz(quiz: Value, switches: Value) -> None:
    """Check a quiz: the switch that is hidden, and the texts for each of its choices."""
    quiz.only("switch", "answers")
    answers = quiz.get("answers").entries()
    for answer in answers.values():
        answer.only("say", "because")
        answer.get("say").text()
        answer.get("because").text()
    if quiz.raw is not None and switches.raw is not None:  # once set, the switches are gone
        hidden = quiz.get("switch").choice(*switches.entries(), first_is_default=False)
        missing = [one for one in switches.get(hidden).entries() if one not in answers]
        if missing:
            raise UsageError(f"quiz.answers: nothing is said about {missing[0]!r}")


def _expect(expect: Value) -> Mapping[str, Any] | None:
    if expect.raw is None:
        return None
    played = expect.get("played")
    played.only(*EXPECTED)
    return played.mapping()
