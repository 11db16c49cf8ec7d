"""``fencelock serve``: a lock service over HTTP, for programs in any language."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from urllib.parse import urlsplit

from ...errors import Misconfigured
from .. import codes, terminal
from ..clock import seconds
from ..codes import BadArguments
from ..options import number_of, url_of

PORT = 7420
EPILOG = """\
One line on stdout says where it listens. SIGTERM drains it: held locks stay held. SIGHUP reads the
configuration again. Exit code 69: the engine cannot be reached.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen on (default 127.0.0.1)")
    add(
        "--port",
        type=number_of(0, 65535),
        default=PORT,
        help=f"the port to listen on (default {PORT}; 0 takes a free one)",
    )
    add("--config", metavar="FILE", help="who may call, and limits: fencelock.toml, mode 0600")
    add("--insecure", action="store_true", help="let everybody call, on a loopback address only")
    add("--drain", metavar="DUR", default="5s", help="how long to answer 503 before it stops")
    add(
        "--workers",
        type=number_of(1, 64),
        default=1,
        help="how many processes serve, on engines whose grants outlive a process (default 1)",
    )
    add("--tls-cert", metavar="FILE", help="the certificate of the service, as PEM")
    add("--tls-key", metavar="FILE", help="the key of the certificate, as PEM")
    add("--tls-client-ca", metavar="FILE", help="demand client certificates of this authority")


def main(options: argparse.Namespace) -> int:
    """Serve until a signal ends it."""
    if (options.tls_cert is None) != (options.tls_key is None):
        raise BadArguments("--tls-cert and --tls-key belong together")
    if options.tls_client_ca is not None and options.tls_cert is None:
        raise BadArguments("--tls-client-ca needs --tls-cert and --tls-key")
    try:
        from ...service.server import Settings, run
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f'the service needs the package {error.name}: pip install "fencelock[service]"'
        ) from None
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("fencelock: %(message)s"))
    for name in ("fencelock.service", "uvicorn.error"):
        logging.getLogger(name).addHandler(handler)
    logging.getLogger("fencelock.service").setLevel(logging.INFO)
    given: str = options.url or ""
    if "@" in given and urlsplit(given).password:
        terminal.say(
            "the password in --url can be read by everybody on this machine (ps): put the URL into "
            "the environment, as FENCELOCK_URL"
        )
    settings = Settings(
        url_of(options),
        options.host,
        options.port,
        options.config or os.environ.get("FENCELOCK_CONFIG"),
        options.insecure,
        seconds(options.drain),
        options.tls_cert,
        options.tls_key,
        options.tls_client_ca,
        options.workers,
    )

    def listening(where: str) -> None:
        if options.json:
            terminal.emit({"event": "listening", "url": where})
        else:
            terminal.out(f"listening on {where}")

    run(settings, listening)
    return codes.OK
