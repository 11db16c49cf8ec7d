"""The wire for threads: PyMySQL connects, then questions and answers pass over its socket."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from secrets import token_hex
from typing import Any

from ....wires.disconnect_monitor import Hangups
from ....world import NO_LIMIT, World
from ..errors import not_connected, unanswered, unreachable
from ..settings import Settings
from .codec import QUIT, Answer, Garbled, Reply, question, short
from .connection import badge_sql, hello, wear
from .transaction import Transaction

CHUNK = 1 << 16
STEP_S = 0.25


def time_left(world: World, settings: Settings, within: float) -> float:
    """How long a thread may wait for the server: no longer than whoever has called us."""
    limit = world.limit()
    if limit == NO_LIMIT:
        return within
    left = limit - world.now()
    if left <= 0:
        raise unreachable(TimeoutError("the caller's time is over"), settings.where)
    if left >= within:
        return within
    # In steps: to tell the socket is a call of the kernel.
    return left if left < 2 * STEP_S else left // STEP_S * STEP_S


def arguments(settings: Settings, within: float) -> dict[str, Any]:
    """How the driver is to connect."""
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
        "connect_timeout": within,
        "read_timeout": within,
        "write_timeout": within,
        "client_flag": CLIENT.MULTI_STATEMENTS,
        "program_name": "fencelock",
    }


def connect(world: World, settings: Settings) -> Any:
    """A connection of the driver's own."""
    import pymysql

    within = time_left(world, settings, settings.request_timeout)
    try:
        connection: Any = pymysql.Connection(**arguments(settings, within), defer_connect=True)
        if settings.tls is None and hasattr(connection, "_ssl_required"):  # from 1.2 on
            connection.ssl, connection.ctx = True, unchecked()
        with tls_or_nothing(connection, settings):
            connection.connect()
        connection._read_timeout = connection._write_timeout = settings.request_timeout
        return connection
    except (pymysql.MySQLError, OSError, RuntimeError) as error:
        raise not_connected(error, settings.where) from error


def context(settings: Settings) -> ssl.SSLContext | None:
    """How to speak TLS: with a certificate that is checked, or not at all."""
    return ssl.create_default_context(cafile=settings.ca or None) if settings.tls else None


@cache
def unchecked() -> ssl.SSLContext:
    """For a server that happens to offer TLS: nobody asked for its certificate to be checked.

    The driver would make the same for every connection, and read all certificates that the machine
    trusts, which takes longer than the rest of connecting.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextmanager
def tls_or_nothing(connection: Any, settings: Settings) -> Generator[None, None, None]:
    """Where TLS is wanted, log in to no server that does not offer it.

    aiomysql, and PyMySQL before 1.2, would go on in plain text: whoever sits in between has only to
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
        del connection._request_authentication  # it would keep the connection alive


def hang_up(sock: socket.socket | None) -> None:
    """Have the server see the end, even while a duplicate of the socket is open."""
    try:
        if sock is not None:
            sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the server was first


class ThreadsLink:
    """One connection, for one thread at a time."""

    def __init__(self, world: World, connection: Any, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._connection = connection  # kept: closing it would close the socket
        self._socket: socket.socket = connection._sock
        self._where = settings.where
        self._within = -1.0
        self.badge = badge_sql(token_hex(8))
        self.socket = self._socket.fileno()
        self.is_over = False

    async def ask(self, sql: str, within: float) -> list[Reply]:
        packet = question(sql)
        if self.is_over:
            raise unreachable(ConnectionError("the link is closed"), self._where)
        if self._world.limit() != NO_LIMIT:
            within = time_left(self._world, self._settings, within)
        try:
            if within != self._within:
                self._socket.settimeout(within)
                self._within = within
            self._socket.sendall(packet)
        except OSError as error:  # less than a whole packet is never run
            self._drop()
            raise unreachable(error, self._where) from error
        except BaseException:
            self._drop()
            raise
        try:
            data = self._socket.recv(CHUNK)
            if (replies := short(data)) is not None:
                return replies
            answer = Answer()
            while data and not answer.feed(data):
                data = self._socket.recv(CHUNK)
            if not data:
                raise ConnectionError("the server closed the connection")
        except (OSError, Garbled) as error:
            self._drop()
            raise unanswered(error, self._where) from error
        except BaseException:  # Ctrl-C: the answer is still to come, and would be taken for another
            self._drop()
            raise
        if answer.error is not None:
            raise answer.error
        return answer.replies

    def has_ended(self) -> bool:
        if self.is_over:
            return True
        try:
            ready, _, _ = select.select([self._socket], [], [], 0)
        except (OSError, ValueError):
            return True
        return bool(ready)  # nothing was asked: what comes now is the end

    def _drop(self) -> None:
        self.is_over = True
        hang_up(self._socket)
        self._connection._force_close()

    def close(self) -> None:
        if self.is_over:
            return
        try:
            self._socket.settimeout(0)
            self._socket.send(QUIT)
        except OSError:
            pass
        self._drop()


async def dial(world: World, settings: Settings, greeting: str = "") -> ThreadsLink:
    """Connect and set the session up."""
    link = ThreadsLink(world, connect(world, settings), settings)
    try:
        await link.ask(
            f"{greeting or hello(settings)};{wear(link.badge)}", settings.request_timeout
        )
    except BaseException:
        link.close()
        raise
    return link


def lanes(pool: int) -> int:
    """All links: a thread that goes by itself is answered sooner than one that waits for others."""
    return pool


def hangups() -> Hangups:
    """Who tells, in a thread of its own, that the server has closed a connection."""
    return Hangups()


async def join(world: World, settings: Settings) -> Transaction:
    """Connect for a transaction that a holder may join."""
    from .transaction_threads import join

    return await join(world, settings)
