"""The floor for a service that uvicorn serves: requests that are answered, and nothing done."""

from __future__ import annotations

from bench.load import Loaded, Turns, body_of, post
from bench.lock_service import OnUvicorn


class UvicornFloor(OnUvicorn, Loaded):
    """Two requests for a pair, as long as those of our service."""

    name = "raw uvicorn"
    works = frozenset({"load"})
    yardstick = works

    def turns(self, name: str) -> Turns:
        words = f'"name":"{name}","id":"{name}-0"'.encode()
        take = post("/v1/acquire", b"{%b}" % words)
        leave = post("/v1/release", b'{"leases":[{%b,"fence":1790000000000000}]}' % words)
        while True:
            body_of((yield take))
            body_of((yield leave))
