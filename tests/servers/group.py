"""Several servers that are one thing to the tests: started together, closed together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from tests.servers.server import Server


class Group(ABC):
    """Use it as a context manager, or call start and close."""

    servers: list[Server]
    """All of them, in the order in which they are started."""

    @abstractmethod
    def join(self) -> None:
        """Make them one: called when all of them answer, returns when they serve together."""

    def start(self) -> Self:
        for server in self.servers:
            server.start()
        self.join()
        return self

    def close(self) -> None:
        """Stop them all, the last first."""
        for server in reversed(self.servers):
            server.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
