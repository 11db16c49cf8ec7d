"""The two clients of DynamoDB: botocore for threads, aiobotocore for asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ....errors import Misconfigured
from ....world import World
from ..settings import Settings

AIO_EXTRA = 'dynamodb:// in asyncio needs the package aiobotocore: pip install "fencelock[{}]"'


class Wire(Protocol):
    """Requests to DynamoDB, for one client of ours."""

    async def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Make one request, once, and return its answer; raise an error of ours, or Refused."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...

    def close_nowait(self) -> None:
        """Close all connections without waiting for that."""
        ...


def wire_of(world: World, settings: Settings) -> Wire:
    """Make the wire of a flavor."""
    if world.flavor == "asyncio":
        try:
            from .aio import AioWire
        except ModuleNotFoundError:
            raise Misconfigured(AIO_EXTRA.format("dynamodb-asyncio")) from None
        return AioWire(settings)
    from .threads import ThreadsWire

    return ThreadsWire(world, settings)


def options_of(settings: Settings, config: Any) -> dict[str, Any]:
    """What both SDKs make a client with; ``config`` is the class of its configuration."""
    options: dict[str, Any] = {
        "region_name": settings.region,
        "endpoint_url": settings.endpoint,
        "config": config(
            connect_timeout=settings.connect_timeout,
            read_timeout=settings.request_timeout,
            max_pool_connections=settings.pool,
            # A write that is repeated behind our back is refused by its own success.
            retries={"total_max_attempts": 1},
            parameter_validation=False,
        ),
    }
    if settings.login is not None:
        options["aws_access_key_id"], options["aws_secret_access_key"] = settings.login
    return options
