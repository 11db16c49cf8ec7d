"""TLS in both flavors: who is trusted, what is agreed on, and bytes of any number."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import pytest

from fencelock.errors import Misconfigured
from fencelock.wires.grpc.tls import TlsLayer, context_of
from fencelock.wires.tls import Tls
from tests.faults.flavors import SOON, Lab, run
from tests.servers.tls import make_certificate
from tests.wires.grpc.connections import connect, connection_to, refusal
from tests.wires.grpc.peer import DATA, answer
from tests.wires.grpc.script import Script
from tests.wires.grpc.server import GrpcServer


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def trust(files: tuple[Path, Path]) -> ssl.SSLContext:
    """What a client needs."""
    return context_of(Tls(ca=str(files[0])))


@pytest.fixture(scope="module")
def server(files: tuple[Path, Path]) -> Iterator[GrpcServer]:
    certificate, key = files
    with GrpcServer(certificate=(key.read_bytes(), certificate.read_bytes())) as server:
        yield server


def _serving(files: tuple[Path, Path], *protocols: str) -> ssl.SSLContext:
    """What a server needs that the test plays."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


@pytest.mark.parametrize("size", [0, 16_379, 16_384, 100_000, 5_000_000])
def test_a_message_of_any_size_comes_back(
    flavor: str, size: int, server: GrpcServer, trust: ssl.SSLContext
) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address, trust) as connection:
            message = bytes(range(256)) * (size // 256) + bytes(size % 256)
            for _ in range(2):
                assert await connection.call("echo", message) == message

    run(flavor, scenario)


def test_many_calls_share_a_connection(
    flavor: str, server: GrpcServer, trust: ssl.SSLContext
) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address, trust) as connection:
            names = [b"%d" % number * 1000 for number in range(40)]
            jobs = [lab.start(connection.call("linger", name)) for name in names]
            assert [await job.result() for job in jobs] == names

    run(flavor, scenario)


def test_a_stream_is_sealed_as_well(flavor: str, server: GrpcServer, trust: ssl.SSLContext) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address, trust) as connection:
            news: list[bytes] = []
            ends: list[int] = []
            stream = connection.stream("flow", news.append, lambda: ends.append(1))
            stream.send(b"x" * 50_000)
            await lab.until(lambda: news == [b"x" * 50_000, b"X" * 50_000])
            stream.send(b"end")
            await lab.until(lambda: ends)
            stream.close()

    run(flavor, scenario)


def test_a_server_that_is_not_trusted_is_not_spoken_to(
    flavor: str, server: GrpcServer, tmp_path: Path
) -> None:
    async def scenario(lab: Lab) -> None:
        other, _ = make_certificate(tmp_path)
        error = await refusal(connect(lab, server.address, context_of(Tls(ca=str(other)))))
        assert (error.code, error.unsent) == ("UNAVAILABLE", True)
        assert "certificate verify failed" in error.details

    run(flavor, scenario)


@pytest.mark.parametrize("protocols", [(), ("http/1.1",)], ids=["none", "another"])
def test_a_server_without_http_2_is_not_spoken_to(
    flavor: str, protocols: tuple[str, ...], files: tuple[Path, Path], trust: ssl.SSLContext
) -> None:
    async def scenario(lab: Lab) -> None:
        accepting = helper.submit(script.accept, _serving(files, *protocols))
        error = await refusal(connect(lab, script.address, trust))
        assert (error.code, error.unsent) == ("UNAVAILABLE", True)
        assert "does not offer HTTP/2" in error.details
        await lab.until(accepting.done)
        accepting.result()

    with Script() as script, ThreadPoolExecutor(1) as helper:
        run(flavor, scenario)


def test_a_server_without_tls_is_not_spoken_to(flavor: str, trust: ssl.SSLContext) -> None:
    async def scenario(lab: Lab) -> None:
        with GrpcServer() as plain:
            error = await refusal(connect(lab, plain.address, trust))
            assert (error.code, error.unsent) == ("UNAVAILABLE", True)

    run(flavor, scenario)


def test_a_server_that_wants_tls_ends_what_is_not_sealed(flavor: str, server: GrpcServer) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address) as connection:
            assert (await refusal(connection.call("echo"))).code == "UNAVAILABLE"
            await lab.until(lambda: not connection.usable())

    run(flavor, scenario)


def test_an_answer_is_heard_before_the_end_that_comes_with_it(
    flavor: str, files: tuple[Path, Path], trust: ssl.SSLContext
) -> None:
    """A server that closes orderly says so behind its last answer, often in the same packet."""

    def serve() -> None:
        side = script.accept(_serving(files, "h2"))
        side.greet()
        side.next(DATA)
        side.says_sealed_with_its_end(answer(1, b"the last one"))

    async def scenario(lab: Lab) -> None:
        serving = helper.submit(serve)
        async with connection_to(lab, script.address, trust) as connection:
            assert await connection.call("any") == b"the last one"
            serving.result(SOON)
            await lab.until(lambda: not connection.usable())

    with Script() as script, ThreadPoolExecutor(1) as helper:
        run(flavor, scenario)


def test_a_certificate_for_another_name_is_refused(
    files: tuple[Path, Path], trust: ssl.SSLContext
) -> None:
    def serve() -> None:
        with pytest.raises(ssl.SSLError):
            _serving(files, "h2").wrap_socket(theirs, server_side=True)

    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as helper:
        ours.settimeout(SOON)
        theirs.settimeout(SOON)
        serving = helper.submit(serve)
        with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere'"):
            TlsLayer(trust, "elsewhere").handshake(ours, monotonic() + SOON)
        serving.result(SOON)  # it was told


@pytest.mark.parametrize("missing", ["ca", "cert", "key"])
def test_a_file_that_is_missing_is_named(missing: str, files: tuple[Path, Path]) -> None:
    certificate, key = map(str, files)
    whole = Tls(certificate, certificate, key)
    context_of(whole)
    with pytest.raises(Misconfigured, match="nowhere cannot be read"):
        context_of(whole._replace(**{missing: "/nowhere"}))


def test_files_must_belong_together_and_be_what_they_should(files: tuple[Path, Path]) -> None:
    certificate, key = map(str, files)
    with pytest.raises(Misconfigured, match="needs both"):
        context_of(Tls(cert=certificate))
    with pytest.raises(Misconfigured, match="PEM"):
        context_of(Tls(ca=__file__))
    with pytest.raises(Misconfigured, match="PEM"):
        context_of(Tls(cert=key, key=certificate))
