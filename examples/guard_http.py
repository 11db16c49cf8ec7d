"""A guard for a service: middleware that refuses requests of a holder that comes too late.

The service is a small WSGI application here, served by Python itself; ASGI is the same with
``fencelock.guards.http.asgi``. Clients send their fence in the header ``Fencing-Token``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from wsgiref.simple_server import WSGIRequestHandler, make_server

import fencelock
from fencelock.guards.http import fencing_headers, raise_if_stale
from fencelock.guards.http.wsgi import FencingMiddleware

seats: dict[str, str] = {}


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """The service itself: it knows the fence, and would pass it on to a database."""
    customer = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])).decode()
    seats[environ["PATH_INFO"]] = customer
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"sold under fence {environ['fencelock.fence']}".encode()]


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def book(url: str, customer: str, lease: fencelock.Lease | int) -> str:
    """The client's side. With httpx or requests: ``auth=httpx_auth(lease)`` does all of it."""
    request = Request(url, customer.encode(), fencing_headers(lease), method="PUT")
    try:
        with urlopen(request, timeout=10) as response:
            return str(response.read().decode())
    except HTTPError as error:
        with error:
            raise_if_stale(error.code, error.read(), lease)
        raise


def main() -> None:
    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    server = make_server("127.0.0.1", 0, FencingMiddleware(app), handler_class=Quiet)
    url = f"http://127.0.0.1:{server.server_port}/seats/1A"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        with fencelock.connect("sqlite:///locks.db") as client:
            # Not renewed, so it ends as if this process had been frozen.
            first = client.lock("seat:1A", ttl=0.2, renew=False).acquire()
            print("the first holder freezes")
            time.sleep(0.3)

            with client.lock("seat:1A", timeout=5) as second:
                print("the second holder:", book(url, "customer 2", second))

            try:
                book(url, "customer 1", first.fence)  # the lease would say itself that it is over
            except fencelock.StaleFence as error:
                print(f"the first holder is refused: {error}")
            assert seats == {"/seats/1A": "customer 2"}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    main()
