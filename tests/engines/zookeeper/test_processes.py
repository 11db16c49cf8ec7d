"""Processes that fork, die or end, and a server that does: what becomes of their sessions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import SOON, Lab, run
from tests.servers.server import until
from tests.servers.zookeeper import ZooKeeper

FORKER = """
import os, sys, fencelock
client = fencelock.connect(sys.argv[1], session=2.0)
lease = client.lock("seat").acquire()
connection = client._core.engine._connection
broken_at = connection._broken_at
child = os.fork()
if child == 0:
    assert not lease
    assert lease.release() is False
    assert client.lock("seat").try_acquire() is None
    with client.lock("other") as own:
        own.check()
    client.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
lease.renew()
assert connection._broken_at == broken_at, "the child broke the parent's connection"
assert lease.release() is True
client.close()
"""


def test_a_forked_child_has_a_session_of_its_own(server: ZooKeeper) -> None:
    """H17, H18: the child neither holds the lease nor ends the parent's session."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKER, server.fresh_url()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""


HOLDER = """
import sys, fencelock
client = fencelock.connect(sys.argv[1], session=1.0)
lease = client.lock("seat").acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_killed_holder_is_followed_when_its_session_ends(flavor: str, server: ZooKeeper) -> None:
    """H21, H23."""
    url = server.fresh_url()
    command = [sys.executable, "-c", HOLDER, url]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        assert await client.lock("seat").try_acquire() is None
        os.kill(holder.pid, signal.SIGKILL)
        await (await client.lock("seat", timeout=SOON).acquire()).release()

    try:
        run(flavor, scenario)
    finally:
        holder.kill()
        holder.communicate()


def test_a_server_that_restarts_keeps_the_lease(flavor: str, own_server: ZooKeeper) -> None:
    url = own_server.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, session=60.0)  # a lease of 45 s: Java takes its time
        lease = await client.lock("seat", ttl=60).acquire()
        own_server.kill()
        own_server.start()
        await until_renewed(lab, lease)
        rival = await lab.connect(url)
        assert await rival.lock("seat").try_acquire() is None
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_closed_client_leaves_no_session(flavor: str, own_server: ZooKeeper) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.fresh_url())
        async with client.lock("seat"):
            assert len(own_server.nodes()) == 1
        await client.close()

    run(flavor, scenario)
    gone = "the session to be gone, long before it would expire"
    until(lambda: own_server.facts()["zk_global_sessions"] == "0", gone, within=8)
