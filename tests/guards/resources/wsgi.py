"""A counter behind HTTP: a WSGI application with the middleware, served by threads."""

from __future__ import annotations

from tests.guards.http.service import ServedCounter, WsgiService


class Counter(ServedCounter):
    service = WsgiService
