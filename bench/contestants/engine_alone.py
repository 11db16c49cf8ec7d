"""What stands behind a lock service, without the service: the engine, and the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.contestants.raw_redis import SCRIPT, leave, packed, take
from bench.load import Done, Loaded, Turns, new_names
from bench.lock_service import place_of
from bench.redis_server import redis_is_absent
from fencelock import engines
from fencelock.engine import Engine
from fencelock.model import Grant, Request
from fencelock.worlds.aio import AioWorld
from tests.servers.redis import Redis

TTL_S = 30.0


class _OnStore(Loaded):
    """Has a Redis server alone on the core."""

    works = frozenset({"load"})
    yardstick = works

    @classmethod
    def missing(cls) -> str:
        return super().missing() or redis_is_absent()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)


class RawRedisLoad(_OnStore):
    """Bare requests to the store: `SET NX PX` and a script that deletes, from the same load."""

    name = "raw redis requests"

    def turns(self, name: str) -> Turns:
        key = name.encode()
        yield packed(b"SCRIPT", b"LOAD", SCRIPT)
        yield packed(b"PING")  # so that turns are pairs
        while True:
            if (answer := (yield take(key))) != b"+OK\r\n":
                raise RuntimeError(f"the server answered {answer!r}")
            if (answer := (yield leave(key))) != b":1\r\n":
                raise RuntimeError(f"the server answered {answer!r}")

    def is_whole(self, answer: bytes) -> bool:
        return answer.endswith(b"\r\n")


class EngineAlone(_OnStore):
    """The engine as the service calls it, by tasks of one loop, on the core of the store."""

    name = "redis engine alone"
    needs = ("redis", "hiredis", "uvloop")
    beside_server = True

    def turns(self, name: str) -> Turns:
        raise NotImplementedError

    def load(self, connections: int, warm_s: float, seconds: float) -> Done:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(self._load(connections, warm_s, seconds))

    async def _load(self, connections: int, warm_s: float, seconds: float) -> Done:
        kind, address = engines.resolve(self.base, {})
        world = AioWorld()
        engine = kind(world, address)
        await engine.open()
        try:
            counts = [0] * connections
            tasks = [
                asyncio.create_task(_take_turns(engine, world.owner, name, counts, number))
                for number, name in enumerate(new_names(connections))
            ]
            await asyncio.sleep(warm_s)
            before, begun = sum(counts), time.perf_counter()
            await asyncio.sleep(seconds)
            done = Done(sum(counts) - before, time.perf_counter() - begun)
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            failed = [end for end in ends if isinstance(end, Exception)]
            if failed:
                raise failed[0]
            return done
        finally:
            await engine.close()


async def _take_turns(
    engine: Engine, owner: Callable[[], str], name: str, counts: list[int], number: int
) -> None:
    while True:
        grant = await engine.acquire(Request(name, owner(), TTL_S))
        assert isinstance(grant, Grant)
        if not await engine.release(grant):
            raise RuntimeError("the lock was lost")
        counts[number] += 1


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with Redis(folder) as store:
        yield place_of(store.url, store)
