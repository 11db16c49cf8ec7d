"""Connections for threads: a blocking socket, used by one thread at a time."""

from __future__ import annotations

import select
import socket
import ssl
from time import monotonic

from ....wires import tcp
from ....world import World
from ..errors import silent, unreachable, untrusted
from .connection import Node
from .http1 import Http1, Response

CHUNK = 65_536


class ThreadsConnection:
    """One connection over a blocking socket."""

    def __init__(self, world: World, sock: socket.socket, http: Http1, where: str) -> None:
        self._world = world
        self._socket = sock
        self._http = http
        self._where = where
        self._over = False
        self._response_pending = False
        """Whether a request was begun whose response is not complete. It is set first, so that it
        stays set if the thread is interrupted at any moment."""

    @property
    def is_closed(self) -> bool:
        return self._over or self._response_pending

    async def call(self, method: str, target: str, body: bytes | None, timeout: float) -> Response:
        now, limit = self._world.now, self._world.limit()
        until = min(now() + timeout, limit)
        self._response_pending = True
        try:
            data = self._http.request(method, target, body)
            self._wait_until(until)
            self._socket.sendall(data)
        except OSError as error:  # an incomplete request is never served
            self._drop()
            raise unreachable(self._where, error) from error
        except BaseException:
            self._drop()
            raise
        try:
            response = None
            while response is None:
                self._wait_until(until)
                response = self._http.feed(self._socket.recv(CHUNK))
        except TimeoutError:
            self._drop()
            raise silent(self._where, f"in {timeout:g} s") from None
        except OSError as error:
            self._drop()
            raise silent(self._where, error) from error
        except BaseException:  # Ctrl-C: the late response would be taken for another's
            self._drop()
            raise
        if not self._http.reusable:
            self._drop()
        self._response_pending = False
        return response

    def _wait_until(self, moment: float) -> None:
        left = moment - self._world.now()
        if left <= 0:
            raise TimeoutError("the time is over")
        self._socket.settimeout(left)

    def closed_by_node(self) -> bool:
        if self.is_closed:
            return True
        try:
            return bool(select.select([self._socket], [], [], 0)[0])  # nothing is pending: closed
        except (OSError, ValueError):
            return True

    def _drop(self) -> None:
        self._over = True
        self._socket.close()

    def close(self) -> None:
        """Shut the socket down, then close it: a thread that reads would not notice the close."""
        self._over = True
        try:
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            pass  # the node has closed it already
        self._socket.close()


async def connect_threads(
    world: World, node: Node, headers: tuple[tuple[str, str], ...]
) -> ThreadsConnection:
    """Connect to a node, within its ``connect_timeout`` and the caller's limit."""
    left = min(node.connect_timeout, world.limit() - world.now())
    if left <= 0:
        raise unreachable(node.where, "the caller's time is over")
    deadline = monotonic() + left
    try:
        sock = tcp.connect(node.host, node.port, deadline)
    except (OSError, UnicodeError) as error:
        raise unreachable(node.where, error) from error
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if node.tls is not None:
            tcp.limit(sock, deadline)
            sock = node.tls.wrap_socket(sock, server_hostname=node.host)
    except BaseException as error:
        sock.close()
        if isinstance(error, ssl.SSLError):
            raise untrusted(node.where, error) from error
        if isinstance(error, OSError):
            raise unreachable(node.where, error) from error
        raise
    return ThreadsConnection(world, sock, Http1(headers), node.where)
