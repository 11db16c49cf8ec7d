"""TLS by real handshakes: what is shown, what is demanded, and what is refused."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
import warnings
from pathlib import Path

import pytest

from tests.cli.program import Program, eventually
from tests.servers.tls import make_certificate
from tests.service.nodes import Node
from tests.service.test_access import Tokens, identity, right, start


def made(folder: Path) -> tuple[Path, Path]:
    folder.mkdir()
    return make_certificate(folder)


class Pair:
    """A node with TLS, and what clients need to trust it."""

    def __init__(self, program: Program, *words: str) -> None:
        self.certificate, self.key = made(program.folder / "server")
        self.words = ("--tls-cert", str(self.certificate), "--tls-key", str(self.key))
        self.node = Node(program, "--insecure", "--drain", "0s", *self.words, *words)
        assert self.node.url.startswith("https://")

    def get(self, context: ssl.SSLContext) -> int:
        where = (self.node.host, self.node.port)
        connection = http.client.HTTPSConnection(*where, timeout=60, context=context)
        try:
            connection.request("GET", "/v1/about")
            return connection.getresponse().status
        finally:
            connection.close()

    def shown(self) -> bytes | None:
        """The certificate that the node shows."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection((self.node.host, self.node.port), 60) as peer:
            with context.wrap_socket(peer) as secured:
                return secured.getpeercert(binary_form=True)


@pytest.fixture
def pair(program: Program) -> Pair:
    return Pair(program)


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate))


def test_a_client_verifies_the_service(pair: Pair, tmp_path: Path) -> None:
    other, _ = made(tmp_path / "other")
    assert pair.get(trusting(pair.certificate)) == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        pair.get(trusting(other))
    assert pair.get(trusting(pair.certificate)) == 200


def test_what_is_older_than_tls_1_2_is_refused(pair: Pair) -> None:
    for version, accepted in [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ]:
        context = trusting(pair.certificate)
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the old version
            context.minimum_version = context.maximum_version = version
        if accepted:
            assert pair.get(context) == 200
            continue
        with pytest.raises((ssl.SSLError, ConnectionError)):
            pair.get(context)


def test_tls_1_2_has_authenticated_encryption(pair: Pair) -> None:
    context = trusting(pair.certificate)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection((pair.node.host, pair.node.port), 60) as peer:
        with context.wrap_socket(peer, server_hostname="localhost") as secured:
            cipher = secured.cipher()
    assert cipher is not None
    assert cipher[0].startswith("ECDHE-")
    assert "GCM" in cipher[0] or "CHACHA20" in cipher[0]


def test_client_certificates_are_demanded(program: Program, tmp_path: Path) -> None:
    allowed, allowed_key = made(tmp_path / "allowed")
    foreign, foreign_key = made(tmp_path / "foreign")
    pair = Pair(program, "--tls-client-ca", str(allowed))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        pair.get(trusting(pair.certificate))
    stranger = trusting(pair.certificate)
    stranger.load_cert_chain(foreign, foreign_key)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        pair.get(stranger)
    known = trusting(pair.certificate)
    known.load_cert_chain(allowed, allowed_key)
    assert pair.get(known) == 200


def test_plain_http_gets_nothing_there(pair: Pair) -> None:
    with socket.create_connection((pair.node.host, pair.node.port), 60) as peer:
        peer.sendall(b"GET /v1/about HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            answer = peer.recv(4096)
        except ConnectionError:
            answer = b""
    assert b"HTTP/" not in answer
    assert pair.get(trusting(pair.certificate)) == 200


def test_a_renewed_certificate_is_shown_after_a_reload_and_a_broken_one_is_not(
    pair: Pair, tmp_path: Path
) -> None:
    before = pair.shown()
    pair.certificate.write_text("no certificate\n")
    pair.node.process.send_signal(signal.SIGHUP)
    assert pair.shown() == before
    new, new_key = made(tmp_path / "new")
    pair.certificate.write_bytes(new.read_bytes())  # its key is still the old one
    pair.node.process.send_signal(signal.SIGHUP)
    assert pair.shown() == before
    pair.key.write_bytes(new_key.read_bytes())
    pair.node.process.send_signal(signal.SIGHUP)
    eventually(lambda: pair.shown() != before)
    assert pair.get(trusting(new)) == 200


def test_a_client_that_is_idle_keeps_no_node_from_stopping(pair: Pair) -> None:
    """It would have to answer that the connection is closed, and does not look."""
    context = trusting(pair.certificate)
    with socket.create_connection((pair.node.host, pair.node.port), 60) as peer:
        with context.wrap_socket(peer, server_hostname="localhost") as secured:
            secured.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert secured.recv(4096).startswith(b"HTTP/1.1 200")
            assert pair.node.stop() == 0
    assert pair.node.process.stderr is not None
    assert pair.node.process.stderr.read() == ""


def test_a_handshake_that_is_under_way_keeps_no_node_from_stopping(pair: Pair) -> None:
    where = (pair.node.host, pair.node.port)
    with socket.create_connection(where, 60), socket.create_connection(where, 60) as half:
        half.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert pair.get(trusting(pair.certificate)) == 200
        assert pair.node.stop() == 0
    assert pair.node.process.stderr is not None
    assert pair.node.process.stderr.read() == ""


def test_the_address_of_a_client_is_known(program: Program) -> None:
    """Failed logins are slowed and audited by it."""
    tokens = Tokens(program, "a")
    audit = program.folder / "audit.log"
    certificate, key = made(program.folder / "server")
    text = f'audit = "{audit}"\n' + identity(tokens, "a", right("", "acquire"))
    node = start(program, text, "--tls-cert", str(certificate), "--tls-key", str(key))
    connection = http.client.HTTPSConnection(
        node.host, node.port, timeout=60, context=trusting(certificate)
    )
    connection.request("GET", "/v1/about")
    assert connection.getresponse().status == 401
    connection.close()
    assert '"peer": "127.0.0.1"' in audit.read_text()


@pytest.mark.parametrize("what", ["missing", "no certificate", "another key", "no authority"])
def test_files_that_cannot_be_used_are_said(what: str, program: Program, tmp_path: Path) -> None:
    certificate, key = made(tmp_path / "one")
    _, other_key = made(tmp_path / "two")
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    words = {
        "missing": ["--tls-cert", str(tmp_path / "none"), "--tls-key", str(key)],
        "no certificate": ["--tls-cert", str(empty), "--tls-key", str(key)],
        "another key": ["--tls-cert", str(certificate), "--tls-key", str(other_key)],
        "no authority": [
            *("--tls-cert", str(certificate), "--tls-key", str(key)),
            *("--tls-client-ca", str(empty)),
        ],
    }[what]
    ran = program.run("serve", "--insecure", "--port", "0", *words)
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "cannot be used" in ran.stderr
    assert "Traceback" not in ran.stderr
