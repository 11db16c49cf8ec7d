"""The two SDK clients of DynamoDB: botocore for threads, aiobotocore for asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from ....errors import Misconfigured
from ....world import World
from ..settings import Settings

INSTALL = 'pip install "fencelock[dynamodb-asyncio]"'


class Wire(Protocol):
    """Sends each request once: returns its reply, or raises an error of ours, or Refused."""

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]: ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None: ...


def wire_of(world: World, settings: Settings) -> Wire:
    """Make the wire of a flavor."""
    if world.flavor != "asyncio":
        from .threads import ThreadsWire

        return ThreadsWire(world, settings)
    if find_spec("aiobotocore") is None:
        raise Misconfigured(f"dynamodb:// in asyncio needs the package aiobotocore: {INSTALL}")
    from .aio import AioWire

    return AioWire(settings)


def new_client(settings: Settings, package: str, kind: str = "") -> Any:
    """Make a client of ``botocore``, or of ``aiobotocore``, whose classes are of kind ``Aio``."""
    config = getattr(import_module(f"{package}.config"), f"{kind}Config")(
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.request_timeout,
        max_pool_connections=settings.pool,
        # A write that the SDK repeats would be refused because of its own success.
        retries={"total_max_attempts": 1},
        parameter_validation=False,
    )
    session = getattr(import_module(f"{package}.session"), f"{kind}Session")()
    session.register_component("data_loader", _loader())
    return session.create_client(
        "dynamodb",
        region_name=settings.region,
        endpoint_url=settings.endpoint,
        aws_access_key_id=settings.login[0],
        aws_secret_access_key=settings.login[1],
        config=config,
    )


@cache
def _loader() -> Any:
    """Return a loader that reads the service's description once in a process: most of the work."""
    return import_module("botocore.loaders").create_loader()
