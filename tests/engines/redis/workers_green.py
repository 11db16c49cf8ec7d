"""A program of green threads: several wait for one lock, and a lease is renewed. Not a test."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

GREEN: Any = import_module(sys.argv[1])
if sys.argv[1] == "eventlet":
    GREEN.monkey_patch()
else:
    import_module("gevent.monkey").patch_all()

import fencelock  # noqa: E402  # the patch comes first

client, other = fencelock.connect(sys.argv[2]), fencelock.connect(sys.argv[2])
fences: list[int] = []


def take_turn() -> None:
    with client.lock("seat", ttl=30, timeout=30) as lease:
        fences.append(lease.fence)
        GREEN.sleep(0.01)


held = other.lock("seat", ttl=30).acquire()
threads = [GREEN.spawn(take_turn) for _ in range(4)]
GREEN.sleep(0)
held.release()
for thread in threads:
    (thread.wait if sys.argv[1] == "eventlet" else thread.get)()
lease = client.lock("long", ttl=60).acquire()
for renewals in range(3):
    lease._hold.attend_at = lease._hold.grant.asked_at
    lease._core.keeper.wake()
    while lease and lease._hold.renewals <= renewals:
        GREEN.sleep(0.01)
lease.check()
lease.release()
client.close()
other.close()
sys.stdout.write(str(sorted(set(fences)) == fences and len(fences)))
