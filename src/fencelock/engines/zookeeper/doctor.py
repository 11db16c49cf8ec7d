"""Finds what in the ensemble would break a promise.

Every member is sent the four-letter word ``srvr``, which servers answer by default.
"""

from __future__ import annotations

from ...errors import FencelockError
from ...model import Finding
from ...world import World
from .wire import Connection, Settings, messages
from .wire.connection import TTL_SHARE
from .wire.srvr import Member, read_member

SLOW_S = 0.1
CONFIG = "/zookeeper/config"
CURED: dict[tuple[int, ...], int] = {(3, 6): 4, (3, 7): 2, (3, 8): 1}
"""The first releases of each series without ZOOKEEPER-4537."""


async def diagnose(world: World, connection: Connection, settings: Settings) -> list[Finding]:
    """Return all findings about one ensemble."""
    worker = world.adopt("fencelock-doctor")
    try:
        if settings.tls:
            found = [Finding("note", "members", "with TLS, members are not asked one by one")]
        else:
            members = [await worker(read_member, *host) for host in settings.hosts]
            found = [*_members(members), *(_version(*each) for each in _versions(members))]
    finally:
        await worker.close()
    found += await _quorum(connection, len(settings.hosts))
    found += await _latency(world, connection)
    return [*found, *_session(connection, settings), *_rights(settings)]


def _members(members: list[Member]) -> list[Finding]:
    found: list[Finding] = []
    for member in members:
        if member.trouble:
            advice = "see to it: while members are missing, the next failure stops all locks"
            found.append(Finding("warning", "members", f"{member.where} {member.trouble}", advice))
        else:
            found.append(Finding("ok", "members", f"{member.where} is {member.mode}"))
    if any(member.mode == "standalone" for member in members):
        text = "the server stands alone: its machine's end is the end of all locks"
        advice = "for correctness run an ensemble of three or five on different machines"
        found.append(Finding("warning", "quorum", text, advice))
    return found


def _versions(members: list[Member]) -> list[tuple[str, bool]]:
    """Return each version, and whether such a member stands alone."""
    return sorted({(each.version, each.mode == "standalone") for each in members if each.version})


def _version(version: str, alone: bool) -> Finding:
    """Warn of versions whose known defects touch locks."""
    number = tuple(map(int, version.split(".")))
    if number < (3, 4, 11) or (3, 5, 0) <= number < (3, 5, 4):
        text = f"version {version} can keep a node whose session has ended (ZOOKEEPER-2355)"
        return Finding("problem", "version", text, "update it: such a lock is never free again")
    if number < (3, 5, 5):
        text = f"version {version} has no container nodes: clients remove unused folders"
        return Finding("note", "version", text, "update it when you can")
    if not alone and number[2] < CURED.get(number[:2], 0):
        text = f"version {version} can keep an answer until it has another request (ZOOKEEPER-4537)"
        return Finding("warning", "version", text, "update it: on a quiet ensemble calls time out")
    return Finding("ok", "version", version)


async def _quorum(connection: Connection, listed: int) -> list[Finding]:
    """Compare the ensemble's own list of members with that of the URL."""
    try:
        (found,) = await connection.call(messages.get_data(CONFIG))
    except FencelockError as error:
        return [Finding("note", "quorum", f"its list of members cannot be read ({error})")]
    if isinstance(found, Exception):
        return []
    text = (found[0] or b"").decode(errors="replace")
    voters = sum("participant" in line for line in text.splitlines())
    if not voters:
        return []
    if listed < voters:
        advice = "name them all in the URL: a client can only go to members that it knows"
        text = f"the ensemble has {voters} members that vote, the URL names {listed}"
        return [Finding("warning", "quorum", text, advice)]
    return [Finding("ok", "quorum", f"{voters // 2 + 1} of {voters} members must agree")]


async def _latency(world: World, connection: Connection) -> list[Finding]:
    times: list[float] = []
    for request in (messages.exists("/"), messages.multi([messages.check("/")])):
        begun = world.now()
        await connection.call(request)
        times.append(world.now() - begun)
    text = f"a read takes {times[0] * 1e3:.1f} ms, a write {times[1] * 1e3:.1f} ms"
    if times[1] > SLOW_S:
        advice = "give ZooKeeper's log a disk of its own: every grant and release waits for it"
        return [Finding("warning", "latency", text, advice)]
    return [Finding("ok", "latency", text)]


def _session(connection: Connection, settings: Settings) -> list[Finding]:
    granted, wanted = connection.session_timeout, settings.session_s
    text = f"a session lasts {granted:g} s: a lease lasts {granted * TTL_SHARE:g} s at most"
    if abs(granted - wanted) > 0.001:
        which = "minSessionTimeout" if granted > wanted else "maxSessionTimeout"
        advice = f"ask for it with session=, or change {which} of the servers"
        return [Finding("warning", "session", f"{text}, and {wanted:g} s were asked for", advice)]
    return [Finding("ok", "session", text)]


def _rights(settings: Settings) -> list[Finding]:
    if settings.credentials:
        return [Finding("ok", "rights", "nodes are guarded by a user and a password")]
    text = "everybody who reaches ZooKeeper can delete any lock"
    advice = "write zookeeper://user:password@host/root, or keep the network closed"
    return [Finding("note", "rights", text, advice)]
