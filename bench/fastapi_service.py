"""A lock service as it is written in an afternoon: FastAPI and the Lock of redis-py.

No fence, no queue, no renewal, no identities: a token that the service draws. It is run by uvicorn.
"""

from __future__ import annotations

import os
import uuid

import redis.asyncio
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from redis.exceptions import LockNotOwnedError

CONNECTIONS = 1000  # its default refuses the 101st

app = FastAPI()
client = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"], max_connections=CONNECTIONS)


class Wanted(BaseModel):
    """What a client asks for."""

    name: str
    ttl: float = 30.0
    wait: float = 0.0


class Held(BaseModel):
    """A lock, as its holder knows it."""

    name: str
    token: str


@app.post("/acquire")
async def acquire(wanted: Wanted) -> Held:
    """Take a lock, perhaps after a wait."""
    token = uuid.uuid4().hex
    lock = client.lock(wanted.name, timeout=wanted.ttl)
    if not await lock.acquire(
        blocking=wanted.wait > 0, blocking_timeout=wanted.wait or None, token=token
    ):
        raise HTTPException(409, "busy")
    return Held(name=wanted.name, token=token)


@app.post("/release")
async def release(held: Held) -> dict[str, bool]:
    """Give a lock back."""
    try:
        await client.lock(held.name).do_release(held.token.encode())
    except LockNotOwnedError:
        return {"released": False}
    return {"released": True}
