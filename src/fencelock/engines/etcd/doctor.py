"""Find what in a cluster would break a promise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from ...errors import FencelockError
from ...model import Finding
from ...world import World
from .cluster import Cluster
from .messages import replies
from .messages.requests import MEMBERS, STATUS

STATUS_TIMEOUT_S = 2.0
SLOW_S = 0.1
OLDEST = (3, 4)

# Known defects of etcd, and for each minor version that has one, the patch release that fixes it.
NEVER = 1_000_000
MENDED: tuple[
    tuple[Literal["note", "warning", "problem"], str, dict[tuple[int, int], int], str], ...
] = (
    (
        "warning",
        "a leader that was frozen may, when it runs on, end leases that its successor has extended",
        {(3, 4): 31, (3, 5): 13},
        "upgrade; until then a holder may be told of its loss late, and the guard must refuse it",
    ),
    (
        "problem",
        "a crash may leave members with different data",
        {(3, 5): 3},
        "upgrade: members that differ break every lock",
    ),
    (
        "note",
        "etcdctl lock says 'locked' to a waiter whose own lease has ended meanwhile",
        {(3, 4): NEVER},
        "our locks look again after a wait; upgrade to 3.5 where other programs use etcdctl lock",
    ),
    (
        "note",
        "the leases of dead clients last longer by as much as the leader's clock is set back",
        {(3, 4): NEVER},
        "upgrade to 3.5, and have clocks slewed, not set",
    ),
)


async def diagnose(world: World, cluster: Cluster) -> list[Finding]:
    """Return all findings about a cluster."""
    return [
        *await _quorum(world, cluster),
        *await _members(world, cluster),
    ]


async def _quorum(world: World, cluster: Cluster) -> list[Finding]:
    asked_at = world.now()
    try:
        await cluster.see_majority(b"\0")
    except FencelockError as error:
        advice = "start members until more than half of them run and reach each other"
        return [Finding("problem", "quorum", str(error), advice)]
    took = world.now() - asked_at
    text = f"a majority answered in {took * 1000:.1f} ms"
    if took > SLOW_S:
        advice = "look at the disks and the network of the members: every lock takes that long"
        return [Finding("warning", "quorum", text, advice)]
    return [Finding("ok", "quorum", text)]


async def _members(world: World, cluster: Cluster) -> list[Finding]:
    found: list[Finding] = []
    statuses: list[replies.Status] = []
    for number, address in enumerate(cluster.members):
        asked_at = world.now()
        try:
            status = replies.read_status(
                await cluster.call_member(number, STATUS, b"", STATUS_TIMEOUT_S)
            )
        except FencelockError as error:
            advice = "start it again, or take it out of the address"
            found.append(Finding("warning", "member", f"{address}: {error}", advice))
            continue
        took = (world.now() - asked_at) * 1000
        statuses.append(status)
        found.append(_state(address, status, took))
    found += await _named(cluster)
    for version in sorted({status.version for status in statuses}):
        found += version_findings(version)
    if len({status.leader for status in statuses if status.leader}) > 1:
        text = "the addresses belong to members that follow different leaders"
        advice = "name the members of one cluster only, and see that they reach each other"
        found.append(Finding("problem", "members", text, advice))
    return found


def _state(address: str, status: replies.Status, took_ms: float) -> Finding:
    if status.errors:
        advice = "see `etcdctl alarm list` and `etcdctl endpoint status`"
        return Finding("problem", "member", f"{address}: {', '.join(status.errors)}", advice)
    if not status.leader:
        advice = "see that it reaches a majority of the others"
        return Finding("warning", "member", f"{address} has no leader", advice)
    if status.is_learner:
        advice = "take it out of the address until it is a full member"
        return Finding("warning", "member", f"{address} is a learner and serves no locks", advice)
    role = "leader" if status.leader == status.member else "follower"
    return Finding("ok", "member", f"{address}: {role}, version {status.version}, {took_ms:.1f} ms")


async def _named(cluster: Cluster) -> list[Finding]:
    """Compare the voting members of the cluster with those that the address lists."""
    try:
        answer = await cluster.call(MEMBERS, b"", reads=True)
    except FencelockError as error:
        return [Finding("note", "members", f"they cannot be read ({error})")]
    voters = replies.count_voters(answer)
    named = len(cluster.members)
    text = f"{voters} voting member(s), {named} named in the address"
    if voters == 1:
        advice = "run three or five: with one, its end is the end of all locks"
        return [Finding("note", "members", text, advice)]
    if voters % 2 == 0:
        advice = "an even number survives no more failures than one less: run three or five"
        return [Finding("note", "members", text, advice)]
    if named < voters:
        advice = "name all of them, so that any may fail"
        return [Finding("note", "members", text, advice)]
    return [Finding("ok", "members", text)]


def version_findings(version: str) -> Sequence[Finding]:
    """List the known defects of a version, as far as they concern locks."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if match is None:
        return [Finding("note", "version", f"{version!r} cannot be read")]
    major, minor, patch = (int(part) for part in match.groups())
    if (major, minor) < OLDEST:
        advice = "upgrade to 3.4 or newer: watches cannot be told apart before"
        return [Finding("problem", "version", f"{version} is too old", advice)]
    found = [
        Finding(level, "version", f"{version}: {what}", advice)
        for level, what, mended, advice in MENDED
        if patch < mended.get((major, minor), 0)
    ]
    return found or [Finding("ok", "version", version)]
