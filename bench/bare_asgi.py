"""An ASGI application that reads a request and answers the same every time, run by uvicorn.

The floor of a service that uvicorn serves: what is left when it does nothing and knows no lock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

ANSWER = b'{"released":true}'
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(ANSWER)).encode()),
    ],
}
BODY = {"type": "http.response.body", "body": ANSWER}


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """Answer when the body is there."""
    while (await receive()).get("more_body", False):
        pass
    await send(START)
    await send(BODY)
