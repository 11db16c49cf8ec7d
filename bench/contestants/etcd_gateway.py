"""etcd's own lock service over HTTP: the JSON gateway to its Lock and Unlock."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.load import Loaded, Turns, body_of, post
from bench.lock_service import place_of
from tests.servers.etcd import Etcd
from tests.servers.server import Missing, program


class EtcdGateway(Loaded):
    """A lease for each connection, granted once. Its store is a disk, unlike that of the others."""

    name = "etcd JSON gateway"
    works = frozenset({"load"})

    @classmethod
    def missing(cls) -> str:
        try:
            program("etcd", Etcd.package)
        except Missing as error:
            return str(error)
        return super().missing()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)

    def turns(self, name: str) -> Turns:
        granted = json.loads(body_of((yield post("/v3/lease/grant", b'{"TTL":300}'))))
        encoded = b64encode(name.encode()).decode()
        wanted = json.dumps({"name": encoded, "lease": granted["ID"]}).encode()
        take = post("/v3/lock/lock", wanted)
        yield post("/v3/lease/timetolive", json.dumps({"ID": granted["ID"]}).encode())
        while True:  # the two requests before it are a pair, too
            locked = json.loads(body_of((yield take)))
            key = json.dumps({"key": locked["key"]}).encode()
            body_of((yield post("/v3/lock/unlock", key)))


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with Etcd(folder) as server:
        yield place_of(f"http://{server.address}", server)
