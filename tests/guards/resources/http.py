"""A counter behind HTTP: an ASGI application with the middleware, served by uvicorn."""

from __future__ import annotations

from tests.guards.http.service import AsgiService, ServedCounter


class Counter(ServedCounter):
    service = AsgiService
