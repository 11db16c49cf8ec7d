"""Connections for threads: PyMySQL connects and logs in, then our codec uses its socket.

Private names of PyMySQL, read in 1.1 and 1.2: ``_sock``, ``_force_close``, ``_read_timeout``,
``_write_timeout``, ``_ssl_required``, ``_request_authentication``.
"""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from secrets import token_hex
from time import monotonic
from typing import Any

from ....wires import tcp
from ....wires.disconnect_monitor import Hangups
from ....world import NO_LIMIT, World
from ..errors import not_connected, unanswered, unreachable
from ..settings import Settings
from .codec import QUIT, ProtocolError, Reply, Response, query_packet, read_ok
from .connection import identity_lock_sql, setup_sql

CHUNK = 1 << 16
STEP_S = 0.25


def time_left(world: World, settings: Settings, timeout: float) -> float:
    """Return a timeout, shortened to the time that the caller's deadline leaves."""
    limit = world.limit()
    if limit == NO_LIMIT:
        return timeout
    left = limit - world.now()
    if left <= 0:
        raise unreachable(TimeoutError("the caller's time is over"), settings.where)
    if left >= timeout:
        return timeout
    # In steps: each new timeout of a socket costs a system call.
    return left if left < 2 * STEP_S else left // STEP_S * STEP_S


def arguments(settings: Settings, timeout: float) -> dict[str, Any]:
    """Return the driver's arguments for a connection."""
    from pymysql.constants import CLIENT

    return {
        "host": settings.host,
        "port": settings.port,
        "user": settings.user or None,
        "password": settings.password,
        "database": settings.database,
        "unix_socket": settings.socket or None,
        "ssl": context(settings),
        "ssl_disabled": not settings.tls,
        "charset": "utf8mb4",
        "autocommit": None,
        "connect_timeout": timeout,
        "read_timeout": timeout,
        "write_timeout": timeout,
        "client_flag": CLIENT.MULTI_STATEMENTS,
        "program_name": "fencelock",
    }


def connect_driver(world: World, settings: Settings) -> Any:
    """Open a connection of the driver's."""
    import pymysql

    timeout = time_left(world, settings, settings.request_timeout)
    try:
        connection: Any = pymysql.Connection(**arguments(settings, timeout), defer_connect=True)
        if settings.tls is None and hasattr(connection, "_ssl_required"):  # from 1.2 on
            connection.ssl, connection.ctx = True, unchecked()
        with tls_or_nothing(connection, settings):
            connection.connect(None if settings.socket else _socket(settings, timeout))
        connection._read_timeout = connection._write_timeout = settings.request_timeout
        return connection
    except (pymysql.MySQLError, OSError, RuntimeError) as error:
        raise not_connected(error, settings.where) from error


def _socket(settings: Settings, timeout: float) -> socket.socket:
    """Connect to the server; the driver would give each address of a host the whole timeout."""
    sock = tcp.connect(settings.host, settings.port, monotonic() + timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def context(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context, which checks the certificate; None for a plain-text connection."""
    return ssl.create_default_context(cafile=settings.ca or None) if settings.tls else None


@cache
def unchecked() -> ssl.SSLContext:
    """Return a TLS context for a server that happens to offer TLS; it checks no certificate.

    The driver would make the same one for every connection, and read all certificates that the
    machine trusts, which takes longer than the rest of connecting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextmanager
def tls_or_nothing(connection: Any, settings: Settings) -> Generator[None, None, None]:
    """Where TLS is wanted, refuse to log in to a server that does not offer it.

    aiomysql, and PyMySQL before 1.2, would go on in plain text: an attacker in between has only to
    hide the offer.
    """
    from pymysql import OperationalError
    from pymysql.constants import CLIENT, CR

    if not settings.tls:
        yield
        return
    login = connection._request_authentication

    def checked() -> Any:
        if not connection.server_capabilities & CLIENT.SSL:
            raise OperationalError(
                CR.CR_SSL_CONNECTION_ERROR, "tls is wanted, and the server offers none"
            )
        return login()

    connection._request_authentication = checked
    try:
        yield
    finally:
        del connection._request_authentication  # a cycle that would keep the connection alive


def shut_down(sock: socket.socket | None) -> None:
    """Shut a socket down: the server sees the end, even while a duplicate of it is open."""
    try:
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the server was first


class ThreadsConnection:
    """One connection, for one thread at a time."""

    def __init__(self, world: World, connection: Any, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._driver = connection  # kept: closing it would close the socket
        self._socket: socket.socket = connection._sock
        self._where = settings.where
        self._timeout = -1.0
        self.identity_lock = identity_lock_sql(token_hex(8))
        self._unfinished: Response | None = None
        """The response, as far as it has come, to a request whose caller has left."""
        self.socket = self._socket.fileno()
        self.is_closed = False

    @property
    def under_way(self) -> bool:
        return self._unfinished is not None

    async def query(self, sql: str, timeout: float, keep: bool = False) -> list[Reply]:
        packet = query_packet(sql)
        if self._unfinished is not None:
            self._drop()  # the response to come would be taken for that to this request
        if self.is_closed:
            raise unreachable(ConnectionError("the connection is closed"), self._where)
        if self._world.limit() != NO_LIMIT:
            left = time_left(self._world, self._settings, timeout)
            keep, timeout = keep and left < timeout, left
        else:
            keep = False
        try:
            self._set_timeout(timeout)
            self._socket.sendall(packet)
        except OSError as error:  # the server never runs an incomplete packet
            self._drop()
            raise unreachable(error, self._where) from error
        except BaseException:
            self._drop()
            raise
        response: Response | None = None
        try:
            data = self._socket.recv(CHUNK)
            if (replies := read_ok(data)) is not None:
                return replies
            response = Response()
            self._receive(response, data)
        except (OSError, ProtocolError) as error:
            if keep and isinstance(error, TimeoutError):
                self._unfinished = response or Response()
            else:
                self._drop()
            raise unanswered(error, self._where) from error
        except (
            BaseException
        ):  # Ctrl-C: the response is still to come, and would be taken for that of the next query
            self._drop()
            raise
        return response.result()

    async def finish(self, timeout: float) -> list[Reply]:
        response = self._unfinished
        if response is None:
            raise unanswered(ConnectionError("the connection was closed"), self._where)
        try:
            self._set_timeout(timeout)
            self._receive(response, self._socket.recv(CHUNK))
            self._unfinished = None
        except (OSError, ProtocolError) as error:
            self._drop()
            raise unanswered(error, self._where) from error
        return response.result()

    def _set_timeout(self, timeout: float) -> None:
        if timeout != self._timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout

    def _receive(self, response: Response, data: bytes) -> None:
        """Receive a response to its end; ``data`` is what has come."""
        while data and not response.feed(data):
            data = self._socket.recv(CHUNK)
        if not data:
            raise ConnectionError("the server closed the connection")

    def closed_by_server(self) -> bool:
        if self.is_closed:
            return True
        try:
            ready, _, _ = select.select([self._socket], [], [], 0)
        except (OSError, ValueError):
            return True
        return bool(ready)  # no query is under way: data can only be the end

    def _drop(self) -> None:
        self.is_closed = True
        self._unfinished = None
        shut_down(self._socket)
        self._driver._force_close()

    def close(self) -> None:
        if self.is_closed:
            return
        try:
            self._socket.settimeout(0)
            self._socket.send(QUIT)
        except OSError:
            pass
        self._drop()


async def connect(world: World, settings: Settings) -> ThreadsConnection:
    """Connect and set the session up."""
    connection = ThreadsConnection(world, connect_driver(world, settings), settings)
    try:
        setup = setup_sql(settings, connection.identity_lock)
        await connection.query(setup, settings.request_timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def disconnect_monitor() -> Hangups:
    """Return a monitor that tells, in its own thread, when the server has closed a connection."""
    return Hangups()
