"""A counter in an object of SeaweedFS, a store with S3's interface."""

from __future__ import annotations

import json
from pathlib import Path

from fencelock.guards.s3 import S3Guard, wrap
from tests.servers.seaweed import BUCKET, Seaweed, client
from tests.servers.shared import shared

NAME = "counter"

client("http://127.0.0.1:1")  # nothing is sent: who forks us later need not read it all again


class Counter:
    """One object. Who knows of no guard writes it whole, and keeps its first line."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        server = shared(Seaweed)
        return json.dumps({"url": server.url, "key": f"{server.fresh_prefix()}value"})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._key = place["key"]
        self._client = client(place["url"], timeout=30)
        self._guard = S3Guard(self._client, BUCKET)

    def enter(self, fence: int, reading: bool = False) -> int:
        return int(self._guard.enter(self._key, fence, name=NAME, reading=reading) or 0)

    def write(self, value: int, fence: int) -> None:
        self._guard.put(self._key, b"%d" % value, fence, name=NAME)

    def read(self) -> int:
        return int(self._guard.read(self._key) or 0)

    def write_bare(self, value: int) -> None:
        body = wrap(self.mark(), b"%d" % value)
        self._client.put_object(Bucket=BUCKET, Key=self._key, Body=body)

    def mark(self, reading: bool = False) -> int:
        return self._guard.mark(self._key, reading=reading)

    def close(self) -> None:
        self._client.close()
