"""The guard for keys of etcd, on a real member."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from fencelock.errors import (
    Denied,
    EngineError,
    Misconfigured,
    OutcomeUnknown,
    StaleFence,
    Unavailable,
    UsageError,
)
from fencelock.guards.etcd import AsyncEtcdGuard, EtcdGuard, delete, get, guarded, put
from fencelock.guards.etcd.gateway import Gateway
from fencelock.guards.etcd.transaction import values
from fencelock.guards.fence import claim
from tests.guards.contract import NAME, Desk, every_check
from tests.guards.etcd.desks import AsyncEtcdDesk, EtcdDesk
from tests.servers.etcd import Etcd
from tests.servers.proxy import Proxy
from tests.servers.server import free_port
from tests.servers.shared import shared
from tests.servers.tls import make_certificate

_number = itertools.count()


@pytest.fixture
def etcd() -> Etcd:
    return shared(Etcd)


@pytest.fixture
def prefix() -> str:
    return f"guard-{next(_number)}/"


@pytest.fixture
def proxy(etcd: Etcd) -> Iterator[Proxy]:
    with Proxy(etcd.port) as proxy:
        yield proxy


@every_check
@pytest.mark.parametrize("kind", [EtcdDesk, AsyncEtcdDesk])
def test_the_contract(
    check: Callable[[Desk], None], kind: type[EtcdDesk], etcd: Etcd, prefix: str
) -> None:
    check(kind(etcd.address, prefix))


def test_several_keys_change_together_or_not_at_all(etcd: Etcd, prefix: str) -> None:
    guard = EtcdGuard(etcd.address, prefix=f"{prefix}marks/")
    a, b = f"{prefix}a", f"{prefix}b"
    guard.commit([put(a, "1"), put(b, b"\x00\xff")], 5, name=NAME)
    with pytest.raises(StaleFence):
        guard.commit([put(a, "2"), delete(b)], 4, name=NAME)
    answers = guard.commit([get(a), delete(a), get(b)], 5, name=NAME)
    assert [*values(answers)] == [b"1", b"\x00\xff"]
    assert guard.enter(5, a, b, name=NAME) == {a: None, b: b"\x00\xff"}
    guard.delete(b, 6, name=NAME)
    assert guard.enter(6, b, name=NAME) == {b: None}
    assert guard.mark(NAME) == 6


def test_names_do_not_share_a_mark(etcd: Etcd, prefix: str) -> None:
    guard = EtcdGuard(etcd.address, prefix=prefix)
    guard.enter(9, name="a")
    guard.enter(1, name="b")
    guard.enter(1, name="a/b")
    assert [guard.mark(name) for name in ("a", "b", "a/b")] == [9, 1, 1]


def test_old_marks_are_forgotten_and_young_ones_are_not(
    etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencelock.guards.etcd.transaction.PAGE", 2)  # so that there are several
    guard = EtcdGuard(etcd.address, prefix=prefix)
    names = [f"n{number}" for number in range(5)]
    for name in names:
        guard.enter(5, name=name)
    assert guard.forget(3600) == 0
    assert asyncio.run(AsyncEtcdGuard(etcd.address, prefix=prefix).forget(3600)) == 0
    monkeypatch.setattr("time.time", lambda: 4e9)
    guard.enter(5, name="n3")  # the same fence again: it is in use
    assert guard.forget(3600) == 4
    assert [guard.mark(name) for name in names] == [0, 0, 0, 5, 0]
    assert guard.enter(1, name="n0") == {}  # which is the price


def test_a_mark_that_was_raised_meanwhile_is_not_forgotten(
    etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = EtcdGuard(etcd.address, prefix=prefix)
    guard.enter(5, name=NAME)
    send = guard._send

    def raised_first(path: str, body: object) -> object:
        if path.endswith("txn"):
            EtcdGuard(etcd.address, prefix=prefix).enter(6, name=NAME)
        return send(path, body)  # type: ignore[arg-type]

    monkeypatch.setattr(guard, "_send", raised_first)
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert guard.forget(1) == 0
    assert guard.mark(NAME) == 6


def test_the_messages_for_stubs_do_the_same(etcd: Etcd, prefix: str) -> None:
    """What gRPC is given as bytes has the effect of the JSON."""
    key = f"{prefix}value"

    def commit(fence: int) -> bytes:
        request = guarded([put(key, "x"), get(key)], claim(fence, NAME), prefix=prefix)
        with grpc.insecure_channel(etcd.address) as channel:
            call: Any = channel.unary_unary("/etcdserverpb.KV/Txn")  # bytes in, bytes out
            return bytes(call(bytes(request), timeout=20))

    guard = EtcdGuard(etcd.address, prefix=prefix)
    for fence in (7, 8, 8):
        assert b"x" in commit(fence)
        assert guard.mark(NAME) == fence
    etcd.ctl("put", key, "untouched")
    assert b"%019d" % 8 in commit(6)  # the answer has the mark
    assert guard.enter(8, key, name=NAME) == {key: b"untouched"}


def test_a_store_that_is_down_is_an_engine_error(prefix: str) -> None:
    nowhere = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"]
    guard = EtcdGuard(nowhere)
    for call in (
        lambda: guard.enter(1, name=NAME),
        lambda: guard.put("k", "v", 1, name=NAME),
        lambda: guard.mark(NAME),
        lambda: guard.reset(NAME),
        lambda: guard.forget(1),
    ):
        with pytest.raises(Unavailable) as caught:
            call()
        assert not caught.value.may_have_happened
    with pytest.raises(EngineError):
        asyncio.run(AsyncEtcdGuard(nowhere).put("k", "v", 1, name=NAME))


def test_another_member_takes_over(etcd: Etcd, prefix: str) -> None:
    guard = EtcdGuard([f"127.0.0.1:{free_port()}", etcd.address], prefix=prefix)
    guard.enter(3, name=NAME)
    assert guard.mark(NAME) == 3


def test_a_lost_answer_leaves_the_outcome_unknown(proxy: Proxy, etcd: Etcd, prefix: str) -> None:
    desk = EtcdDesk(f"127.0.0.1:{proxy.port}", prefix)
    proxy.lose_next_reply()
    with pytest.raises(OutcomeUnknown) as caught:
        desk.write("a", 5, NAME)
    assert caught.value.may_have_happened
    direct = EtcdDesk(etcd.address, prefix)
    assert (direct.read(), direct.mark()) == ("a", 5)  # here it was done; again is harmless
    direct.write("a", 5, NAME)
    proxy.lose_next_reply()
    with pytest.raises(Unavailable):  # a read changes nothing in any case
        desk.mark()


def test_a_server_that_is_no_etcd_is_told() -> None:
    code = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler)"
    code += "; print(s.server_port, flush=True); s.serve_forever()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        guard = EtcdGuard(f"http://127.0.0.1:{int(server.stdout.readline())}")
        with pytest.raises((Misconfigured, OutcomeUnknown)):
            guard.enter(1, name=NAME)
        server.kill()


def test_a_member_with_tls_and_accounts(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    with Etcd(certificate=certificate) as etcd:
        for words in (("user", "add", "root:secret"), ("user", "grant-role", "root", "root")):
            etcd.ctl(*words)
        assert etcd.ctl("auth", "enable").returncode == 0
        url = f"https://{etcd.address}"
        with pytest.raises(Unavailable):  # who does not trust its certificate sends nothing
            EtcdGuard(url).enter(1, name=NAME)
        with pytest.raises(Denied):
            EtcdGuard(url, context=trust, headers={"Authorization": "wrong"}).enter(1, name=NAME)
        known = {"name": "root", "password": "secret"}
        login = Gateway(url, timeout=20, headers={}, context=trust)("/v3/auth/authenticate", known)
        guard = EtcdGuard(url, context=trust, headers={"Authorization": login["token"]})
        guard.enter(1, name=NAME)
        assert guard.mark(NAME) == 1


def test_a_refused_request_changes_nothing(etcd: Etcd, prefix: str) -> None:
    guard = EtcdGuard(etcd.address, prefix=prefix)
    with pytest.raises(Misconfigured, match="duplicate key"):
        guard.commit([put("same", "1"), put("same", "2")], 1, name=NAME)
    assert guard.mark(NAME) == 0


def test_a_foreign_value_in_the_place_of_a_mark_stops_everybody(etcd: Etcd, prefix: str) -> None:
    desk = EtcdDesk(etcd.address, prefix)
    etcd.ctl("put", f"{prefix}marks/{NAME}", "zzz")
    with pytest.raises(EngineError, match="no guard wrote"):
        desk.write("a", 5, NAME)
    with pytest.raises(EngineError, match="no guard wrote"):
        desk.mark()
    assert desk.read() is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: EtcdGuard([]),
        lambda: EtcdGuard("ftp://127.0.0.1"),
        lambda: EtcdGuard(prefix=""),
        lambda: EtcdGuard(epoch=-1),
        lambda: EtcdGuard().enter(1, name="lone \ud800"),
        lambda: EtcdGuard().mark(""),
        lambda: EtcdGuard().reset(NAME, -1),
        lambda: EtcdGuard().forget(-1),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        make()
