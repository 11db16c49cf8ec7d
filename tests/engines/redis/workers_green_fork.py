"""A program of green threads that forks while it holds a lease. Not a test.

The green threads of the parent go on in the child, the keeper's among them: it must not renew
there, on a connection that is the parent's.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import_module("gevent.monkey").patch_all()
gevent: Any = import_module("gevent")

import fencelock  # noqa: E402  # the patch comes first

client = fencelock.connect(sys.argv[1])
lease = client.lock("seat", ttl=6).acquire()
engine: Any = client._core.engine
renew, renewed_in = engine.renew, list[int]()


async def record(grants: Any) -> Any:
    renewed_in.append(os.getpid())
    return await renew(grants)


engine.renew = record
while not renewed_in:  # the keeper is a green thread that has begun
    gevent.sleep(0.02)
parent = os.getpid()
child = os.fork()  # the one of gevent, by the patch
gevent.sleep(3)  # longer than the keeper waits between two renewals
if child == 0:
    own = client.lock("other", ttl=30, timeout=5).acquire()
    report = [not lease, own.release(), set(renewed_in) == {parent}]
    client.close()
    sys.stdout.write(f"child {report}\n")
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
lease.check()
sys.stdout.write(f"parent {[lease.release()]}\n")
client.close()
