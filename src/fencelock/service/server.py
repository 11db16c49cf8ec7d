"""The process: opens the engine, listens, reloads on SIGHUP, drains on SIGTERM.

The engine is opened before the socket: a node that cannot lock does not listen. It is closed
without releasing anything: what is held belongs to clients, who renew through another node.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import math
import os
import signal
import socket
import ssl
from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple, cast

import uvicorn

from .. import engines
from ..errors import Misconfigured
from ..model import shown
from ..worlds.aio import AioWorld
from .access import Access
from .app import App
from .audit import FileAudit, NoAudit
from .config import Config, load
from .events import Events, PublishingAudit
from .handlers import Service
from .node import CALL_S, Auditor, Node
from .protocol import LimitedProtocol
from .tickets import Tickets
from .tls_listener import TlsListener
from .workers import supervise

LOCAL = ("localhost", "127.0.0.1", "[::1]")
KEEP_ALIVE_S = 75
PROBES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2}  # two in seconds, and a count
_log = logging.getLogger("fencelock.service")


class Settings(NamedTuple):
    """How one node is started."""

    url: str | None
    host: str
    port: int
    config: str | None = None
    insecure: bool = False
    drain: float = 5.0
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    workers: int = 1


def run(settings: Settings, listening: Callable[[str], None]) -> None:
    """Serve until a signal ends it. ``listening`` gets the address once calls are accepted."""
    config = read_config(settings)
    if settings.workers == 1:
        _run(settings, config, lambda listener: _announce(listening, _url(settings, listener)))
        return
    with _bind(settings.host, settings.port) as listener:
        worker = supervise(settings.workers, lambda: _announce(listening, _url(settings, listener)))
        if worker is None:
            return
        _run(settings, config, lambda _: worker.ready(), (listener, worker.parent))


def _run(
    settings: Settings,
    config: Config,
    started: Callable[[socket.socket], None],
    shared: tuple[socket.socket, int] | None = None,
) -> None:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, config, started, shared))


def read_config(settings: Settings) -> Config:
    """Read the configuration; refuse to serve other machines without identities."""
    config = Config() if settings.config is None else load(settings.config)
    if config.identities:
        if settings.insecure:
            raise Misconfigured("--insecure and a file with identities contradict each other")
    elif not settings.insecure:
        raise Misconfigured(
            "nobody may call this service: name a file with identities by --config (fencelock "
            "token NAME makes one), or try it on this machine only with --insecure"
        )
    elif not _is_loopback(settings.host):
        raise Misconfigured(
            f"--insecure lets everybody take every lock, and {settings.host} can be reached from "
            "elsewhere: bind a loopback address, or name identities by --config"
        )
    if _is_wildcard(settings.host) and not config.hosts:
        raise Misconfigured(
            f"{settings.host} is every address: list the names of this service in the file, "
            'as hosts = ["locks.internal"]'
        )
    return config


async def _serve(
    settings: Settings,
    config: Config,
    started: Callable[[socket.socket], None],
    shared: tuple[socket.socket, int] | None,
) -> None:
    world = AioWorld()
    kind, address = engines.resolve(settings.url, {})
    if kind.is_service:
        raise Misconfigured(f"{address.public} is a lock service itself: name the store behind it")
    engine = kind(world, address)
    await engine.open()
    try:
        auditor = FileAudit(config.audit, world.wall_us) if config.audit else NoAudit()
        access = Access(None if settings.insecure else config.identities)
        audit = PublishingAudit(auditor)
        node = Node(world, engine, access, audit, config.limits)
        audit.events = Events(node)
        node.log = lambda text: _log.warning("%s", shown(text))
        if not engine.traits.portable:
            if settings.workers > 1:
                raise Misconfigured(
                    f"--workers {settings.workers} needs an engine whose grants outlive a process, "
                    f"and those of {address.public} do not: leave --workers out, or use sqlite, "
                    "redis, etcd, zookeeper, postgresql or mysql with mode=lease"
                )
            _log.warning("locks of %s that are held end with this process", address.public)
        service = Service(node, Tickets(node), audit.events)
        await _Process(settings, config, service, auditor).listen(started, shared)
    finally:
        await engine.close()


class _Process:
    """One node while it runs."""

    def __init__(
        self, settings: Settings, config: Config, service: Service, auditor: Auditor
    ) -> None:
        self._settings = settings
        self._auditor = auditor
        self._service = service
        self._app = App(service, _hosts(settings, config))
        self._tls = _tls(settings)
        self._server = _Server(_uvicorn(self._app, self._tls))
        self._drained: asyncio.Task[None] | None = None

    async def listen(
        self,
        started: Callable[[socket.socket], None],
        shared: tuple[socket.socket, int] | None,
    ) -> None:
        """Serve calls until the node is drained; a worker does so on a socket that others share."""
        node, tickets, _ = self._service
        loop = asyncio.get_running_loop()
        if shared is None:
            listener = _bind(self._settings.host, self._settings.port)
        else:
            listener = shared[0]
            loop.add_reader(shared[1], self._parent_is_gone, shared[1])
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._drain)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        jobs = [loop.create_task(node.tick()), loop.create_task(tickets.sweep())]
        self._server.on_start = lambda: started(listener)
        try:
            with self._app.registry:
                await self._server.serve(sockets=[listener])
        finally:
            listener.close()
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
            node.failed_logins.flush(math.inf)
            if isinstance(self._auditor, FileAudit):
                self._auditor.close()

    def _parent_is_gone(self, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        self._drain()

    def _drain(self) -> None:
        """Refuse calls, end polls, and stop after a while; at a second signal, at once."""
        if self._drained is not None:
            self._server.should_exit = True
            return
        self._service.node.draining = True
        self._service.tickets.wake_all()
        self._service.events.end_all()
        _notify("STOPPING=1")
        self._drained = asyncio.get_running_loop().create_task(self._stop())

    async def _stop(self) -> None:
        await asyncio.sleep(self._settings.drain)
        self._server.should_exit = True

    def _reload(self) -> None:
        """Reopen the audit, reload certificate and configuration; a broken file changes nothing."""
        node = self._service.node
        if isinstance(self._auditor, FileAudit):
            self._auditor.reopen()
        if self._tls is not None:
            try:
                _tls(self._settings)  # a context that has read half of it would be of no use
                _load_certificate(self._tls, self._settings)
            except Misconfigured as error:
                _log.error("the certificate stays as it was: %s", shown(str(error)))
        if self._settings.config is None:
            return
        try:
            config = read_config(self._settings)
        except Misconfigured as error:
            _log.error("the configuration stays as it was: %s", shown(str(error)))
            return
        node.access.replace(config.identities)
        node.limits = config.limits
        self._service.events.end_all()  # readers that still may read reconnect
        self._app.hosts = _hosts(self._settings, config)
        _log.info("the configuration was read again")


class _Server(uvicorn.Server):
    """Uvicorn, with its signals left to us."""

    on_start: Callable[[], None] = staticmethod(lambda: None)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        config, context = self.config, self.config.ssl
        if context is None or sockets is None:
            await super().startup(sockets)
        else:
            connections = self.server_state.connections
            make = partial(LimitedProtocol, config, self.server_state, self.lifespan.state)
            self.servers = [
                cast("asyncio.Server", TlsListener(one, config.backlog, context, make, connections))
                for one in sockets
            ]
            self.started = True
        self.on_start()


def _uvicorn(app: App, tls: ssl.SSLContext | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(2 * CALL_S),
    )
    config.load()
    config.ssl = tls  # uvicorn's own choice of ciphers differs by version
    return config


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """Return a context for TLS 1.2 or later with the certificate of the settings, or None."""
    if settings.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, settings)
    if settings.client_ca is not None:
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:
            raise Misconfigured(
                f"--tls-client-ca {settings.client_ca} cannot be used: {_reason(error)}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load_certificate(context: ssl.SSLContext, settings: Settings) -> None:
    """Load the certificate and its key; connections that are made from now on present it."""
    assert settings.certificate is not None
    try:
        context.load_cert_chain(settings.certificate, settings.key, password=_no_password)
    except OSError as error:
        raise Misconfigured(
            f"the certificate {settings.certificate} with the key {settings.key} cannot be used: "
            f"{_reason(error)}"
        ) from error


def _no_password() -> str:
    raise Misconfigured("the key of the certificate is encrypted: nobody is there to be asked")


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"it is not PEM, or they do not belong together ({error.reason or error})"
    return error.strerror or str(error)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # it does not exist everywhere
        return None
    return uvloop.new_event_loop


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _probe_silent_peers(listener)
        listener.bind(where)
    except OSError as error:
        raise Misconfigured(f"{host}:{port} cannot be bound: {error.strerror}") from error
    return listener


def _probe_silent_peers(listener: socket.socket) -> None:
    """Have the kernel probe silent clients (TCP keep-alive): they may have vanished.

    Connections inherit this from the listener. A call that waits for a client that is gone ends
    then.
    """
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _hosts(settings: Settings, config: Config) -> frozenset[str]:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host.lower()
    return frozenset({*LOCAL, *config.hosts, host})


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_wildcard(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _url(settings: Settings, listener: socket.socket) -> str:
    scheme = "https" if settings.certificate else "http"
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _announce(listening: Callable[[str], None], where: str) -> None:
    listening(where)
    _notify("READY=1")


def _notify(state: str) -> None:
    """Notify systemd of a state, if it started us."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.sendto(state.encode(), address)
