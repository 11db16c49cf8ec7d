"""What goes wrong in a run: each kind of fault, and how it befalls a client or a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencelock._client import administration
from fencelock.errors import FencelockError
from fencelock.sim import faults
from tests.sim.plan import Fault

if TYPE_CHECKING:
    from tests.sim.harness import Run


def _pause(run: Run, fault: Fault) -> None:
    client = run.client(fault)
    if client.host.is_paused or client.is_gone:
        return

    def resume() -> None:
        if not client.world.is_crashed:
            run.history.note(client.name, "resume")
            faults.resume(client.world, client.host)

    run.history.note(client.name, "pause")
    faults.pause(client.world, client.host)
    run.later(fault.seconds, resume)


def _crash(run: Run, fault: Fault) -> None:
    client = run.client(fault)
    if client.is_gone:
        return
    run.history.note(client.name, "crash")
    client.leave()
    tells = fault.chance < 0.7 and client.world.edge is not None  # else power failed
    faults.crash(client.world, client.host, client.core.engine if tells else None)


def _restart(run: Run, fault: Fault) -> None:
    client = run.client(fault)
    if not client.is_gone and client.name in run.plan.clients:
        _crash(run, fault)
        run.later(fault.seconds / 4, lambda: run.enter(f"{client.name}b", client.planned[:2]))


def _cancel(run: Run, fault: Fault) -> None:
    for task in run.client(fault).visits[-1:]:
        run.client(fault).cancel(task)
        run.later(fault.seconds * 0.01, task.cancel)  # and again


def _revoke(run: Run, fault: Fault) -> None:
    """Somebody takes the lock from its holder."""
    client = run.client(fault)
    if client.is_gone:
        return

    async def revoke() -> None:
        try:
            await administration.revoke(client.core, run.backend.name, "the nemesis wished so")
        except FencelockError as error:
            run.simulation.note("nemesis", type(error).__name__)

    run.simulation.start(revoke(), client.world, "nemesis")


def _stop(run: Run, fault: Fault) -> None:
    """A server is stopped for seconds, as by SIGSTOP, or all of them are: what comes meanwhile is
    served when it goes on."""
    places = range(len(run.backend.hosts)) if fault.chance < 0.5 else (fault.place,)
    for place in places:
        _freeze(run, fault._replace(place=place, seconds=1.0 + 3 * fault.seconds))


def _freeze(run: Run, fault: Fault) -> None:
    node = run.node(fault)
    if node.is_paused or node.is_down:
        return

    def thaw() -> None:
        run.history.note(node.name, "resume")
        node.wake()

    run.history.note(node.name, "pause")
    node.is_paused = True
    run.later(fault.seconds, thaw)


def _reboot(run: Run, fault: Fault) -> None:
    node = run.node(fault)
    if node.is_down:
        return

    def restart() -> None:
        run.history.note(node.name, "restart")
        node.restart(forgets=fault.kind == "amnesia")

    run.history.note(node.name, "crash")
    node.crash()
    run.later(fault.seconds / 2, restart)


def _cut(run: Run, fault: Fault) -> None:
    client, node = run.client(fault).name, run.node(fault).name
    servers = [host.name for host in run.backend.hosts]
    everybody = [one.name for one in run.clients]
    if run.backend.is_tiered:
        everybody += [server for server in servers if server != node]
    up, down = faults.ways([client], servers), faults.ways(servers, [client])
    isolated = faults.ways(everybody, [node]) + faults.ways([node], everybody)
    part = [way for way in up + down if node not in way]
    cuts = {"cut": up + down, "cut_up": up, "cut_down": down, "cut_node": isolated}
    ways = cuts.get(fault.kind, part)
    whom = node if fault.kind == "cut_node" else client

    def heal() -> None:
        run.history.note(whom, "heal")
        run.network.heal(ways)

    run.history.note(whom, "partition", detail=fault.kind)
    run.network.cut(ways)
    run.later(fault.seconds, heal)


def _step(run: Run, fault: Fault) -> None:
    """The clock of a server steps, back or forth, by seconds or by an hour."""
    node = run.node(fault)
    seconds = (fault.chance - 0.5) * (7200.0 if fault.chance > 0.8 else 10.0)
    node.ahead += seconds
    run.history.note(node.name, "clock", detail=f"{seconds:+.3f} s")


def _wall(run: Run, fault: Fault) -> None:
    """The wall clock of a client steps, which nothing looks at."""
    run.client(fault).world.wall_ahead += (fault.chance - 0.5) * 7200.0


FAULTS: dict[str, Callable[[Run, Fault], None]] = {
    "pause": _pause, "crash": _crash, "restart": _restart, "cancel": _cancel, "freeze": _freeze,
    "stop": _stop, "reboot": _reboot, "amnesia": _reboot, "cut": _cut, "cut_up": _cut,
    "cut_down": _cut, "cut_node": _cut, "cut_part": _cut, "revoke": _revoke, "step": _step,
    "wall": _wall,
}  # fmt: skip
