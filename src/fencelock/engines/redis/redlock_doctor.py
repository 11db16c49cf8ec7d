"""What of the nodes of a Redlock, as they are set up, would break a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...model import Finding
from .doctor import CLOCK_S, judge
from .quorum import Everyone, majority
from .redlock_answers import listed
from .rounds import Rounds, where
from .settings import Settings
from .wire import Word, packed

SETTINGS = ("maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save")


async def diagnose(
    rounds: Rounds[Any],
    settings: Settings,
    until: Callable[[], float],
    wall_us: Callable[[], int],
) -> list[Finding]:
    """Look at each node, and at what they are together."""
    count = len(settings.nodes)

    async def command(*words: Word) -> list[Any]:
        return (await rounds.ask(packed(*words), Everyone(count).cast, until())).answers

    infos = await command("INFO")
    configs: list[dict[str, str] | None] = [{} for _ in infos]
    for setting in SETTINGS:
        for place, reply in enumerate(await command("CONFIG", "GET", setting)):
            configs[place] = _added(configs[place], reply)
    before = wall_us()
    times = await command("TIME")
    now = (before + wall_us()) / 2

    findings = list(_count(count))
    ahead: dict[str, float] = {}
    for place, node in enumerate(settings.nodes):
        name, info, time = where(node), infos[place], listed(times[place])
        if not isinstance(info, bytes) or not time:
            findings.append(_down(name, info))
            continue
        ahead[name] = (int(time[0]) * 1_000_000 + int(time[1]) - now) / 1e6
        config = configs[place]
        findings += judge(name, _facts(info), config, ahead[name], 0)
        findings += _restart(name, config)
    return [*findings, *_clocks(ahead)]


def _count(count: int) -> Iterator[Finding]:
    spare = count - majority(count)
    text = f"{count} node(s): {majority(count)} must agree, {spare} may fail"
    if count < 3:
        advice = "use three nodes or five; for one server, redis:// does more"
        yield Finding("warning", "nodes", text, advice)
    elif count % 2 == 0:
        advice = f"{count - 1} nodes survive as many failures, and split votes are rarer"
        yield Finding("note", "nodes", text, advice)
    else:
        yield Finding("ok", "nodes", text)


def _down(name: str, answer: object) -> Finding:
    why = answer if isinstance(answer, Exception) else "no answer in time"
    return Finding("warning", "nodes", f"{name} does not serve ({why})", "bring the node back")


def _restart(name: str, config: dict[str, str] | None) -> Iterator[Finding]:
    if config is not None and config.get("appendonly") != "yes":
        yield Finding(
            "note",
            "restart",
            f"{name} would vote anew after a restart, while the old holder still holds",
            "have it start no sooner than the longest ttl after it stopped (restart_delay)",
        )


def _clocks(ahead: dict[str, float]) -> Iterator[Finding]:
    if len(ahead) < 2:
        return
    first, last = min(ahead, key=ahead.__getitem__), max(ahead, key=ahead.__getitem__)
    apart = ahead[last] - ahead[first]
    if apart > CLOCK_S:
        text = f"the clocks of {first} and {last} are {apart:.1f} s apart"
        yield Finding("warning", "clocks", text, "have all nodes follow a time server")
    else:
        yield Finding("ok", "clocks", "the clocks of the nodes agree")


def _added(config: dict[str, str] | None, reply: Any) -> dict[str, str] | None:
    words = [word.decode("utf-8", "replace") for word in listed(reply)]
    if config is None or not words:
        return None
    return {**config, **dict(zip(words[::2], words[1::2], strict=True))}


def _facts(reply: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {key: value for key, colon, value in lines if colon}
