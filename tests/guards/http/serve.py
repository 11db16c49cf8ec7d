"""Serve the counters: ``python -m tests.guards.http.serve KIND PORT``."""

from __future__ import annotations

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tests.guards.http.counting import asgi_app, wsgi_app


class Threads(ThreadingMixIn, WSGIServer):
    """One thread for each request."""

    daemon_threads = True
    request_queue_size = 128


class Quiet(WSGIRequestHandler):
    """Does not log every request."""

    def log_message(self, format: str, *args: object) -> None:  # its own name
        pass


def serve_asgi(port: int) -> None:
    import uvicorn

    uvicorn.run(asgi_app(), host="127.0.0.1", port=port, log_level="warning", lifespan="off")


def serve_wsgi(port: int) -> None:
    with make_server("127.0.0.1", port, wsgi_app(), Threads, Quiet) as server:
        server.serve_forever()


if __name__ == "__main__":
    {"asgi": serve_asgi, "wsgi": serve_wsgi}[sys.argv[1]](int(sys.argv[2]))
