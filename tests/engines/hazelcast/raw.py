"""Hazelcast's own Python client, and its FencedLock, as any other program would use them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from fencelock.engines.hazelcast.wire import new_invocation, own_client
from tests.servers.hazelcast import CLUSTER

ANSWER_S = 30.0


class Raw:
    """A client of Hazelcast's own."""

    def __init__(self, ports: Sequence[int]) -> None:
        members = [f"127.0.0.1:{port}" for port in ports]
        self.client: Any = own_client("hazelcast.client")(
            cluster_name=CLUSTER, cluster_members=members, cluster_connect_timeout=ANSWER_S
        )

    def lock(self, name: str) -> Any:
        """The FencedLock of this name, which takes the calling thread for the owner."""
        return self.client.cp_subsystem.get_lock(name).blocking()

    def ask(self, operation: str, *arguments: Any) -> Any:
        """Make a request of the group of the locks, as the engine does."""
        group = self.client.cp_subsystem.get_lock("group").get_group_id()
        module = "hazelcast.invocation"
        words = (group, *arguments)
        invocation = new_invocation(self.client, module, operation, words, ANSWER_S)
        self.client._invocation_service.invoke(invocation)
        return invocation.future.result()

    def state(self, name: str) -> dict[str, int]:
        """Who holds a lock, by fence, lock count, session and thread."""
        return dict(self.ask("ownership", name))

    def close(self) -> None:
        self.client.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
