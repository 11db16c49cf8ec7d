"""The two clients of DynamoDB: botocore for threads, aiobotocore for asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from ....errors import Misconfigured
from ....world import World
from ..settings import Settings


class Wire(Protocol):
    """Requests to DynamoDB, for one client of ours."""

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Make one request, once, and return its answer; raise an error of ours, or Refused."""
        ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None: ...


def wire_of(world: World, settings: Settings) -> Wire:
    """Make the wire of a flavor."""
    if world.flavor != "asyncio":
        from .threads import ThreadsWire

        return ThreadsWire(world, settings)
    if find_spec("aiobotocore") is None:
        install = 'pip install "fencelock[dynamodb-asyncio]"'
        raise Misconfigured(f"dynamodb:// in asyncio needs the package aiobotocore: {install}")
    from .aio import AioWire

    return AioWire(settings)


def new_client(settings: Settings, package: str, kind: str = "") -> Any:
    """Make a client of ``botocore``, or of ``aiobotocore``, whose classes are of kind ``Aio``."""
    config = getattr(import_module(f"{package}.config"), f"{kind}Config")(
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.request_timeout,
        max_pool_connections=settings.pool,
        # A write that is repeated behind our back is refused by its own success.
        retries={"total_max_attempts": 1},
        parameter_validation=False,
    )
    return getattr(import_module(f"{package}.session"), f"{kind}Session")().create_client(
        "dynamodb",
        region_name=settings.region,
        endpoint_url=settings.endpoint,
        aws_access_key_id=settings.login[0],
        aws_secret_access_key=settings.login[1],
        config=config,
    )
