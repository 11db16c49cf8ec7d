"""A Consul of one server for the contestants that need one, and what it has done for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

from bench.contestant import Contestant
from tests.servers import consul_program
from tests.servers.consul import Consul


class OnConsul(Contestant):
    """A contestant whose place is the address of an agent."""

    field: ClassVar[str] = "consul"

    @classmethod
    def missing(cls) -> str:
        return super().missing() or ("" if consul_program.find() else consul_program.ADVICE)

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with Consul(folder) as server:
        yield server.address
