"""Two nodes of one store, one of which is cut off from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from urllib.parse import urlsplit

import pytest

from tests.cli.program import Program, eventually
from tests.servers.etcd import Etcd
from tests.servers.postgresql import Postgresql
from tests.servers.proxy import Proxy
from tests.servers.redis import Redis
from tests.servers.shared import shared
from tests.service.nodes import Node, Reply, answer_of, held, new_id

KINDS = {
    "redis": lambda: shared(Redis).url,
    "postgresql": lambda: shared(Postgresql).url(),
    "etcd": lambda: shared(Etcd).url,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def proxy(kind: str) -> Iterator[Proxy]:
    port = urlsplit(KINDS[kind]()).port
    assert port is not None
    with ExitStack() as stack:
        yield stack.enter_context(Proxy(port))


def test_a_node_that_is_cut_off_says_so_and_answers_nothing_from_memory(
    kind: str, proxy: Proxy, program: Program
) -> None:
    """H78: 503, or 504 while the outcome is open; the other node serves the same leases."""
    url = KINDS[kind]()
    direct = Node(program, "--insecure", "--drain", "0s", url=url)
    through = url.replace(f":{urlsplit(url).port}", f":{proxy.port}")
    node = Node(program, "--insecure", "--drain", "0s", url=through)
    name = f"cut-{new_id()}"
    lease = node.acquire(name, ttl=60)
    waiting = node.begin("acquire", {"name": name, "wait": 20, "ttl": 60})
    direct.queue(name, 1)
    proxy.cut()
    calls: dict[str, object] = {
        "acquire": {"name": name, "id": lease["id"], "ttl": 60},
        "inspect": {"name": name},
        "renew": {"leases": [held(lease)]},
        "release": {"leases": [held({**lease, "id": new_id()})]},
        "locks": None,
    }
    for verb, body in calls.items():
        reply = eventually(partial(_refused, node, verb, body))
        assert reply is not None
        assert reply.problem == "engine-unavailable"
        assert reply.body["may_have_happened"] is False
        assert int(reply.headers["retry-after"]) >= 0
        assert str(proxy.port) not in json.dumps(reply.body)
    assert node.send("GET", "/readyz").status == 503
    assert node.send("GET", "/healthz").status == 200
    assert direct.renew(lease)[0] == {"held": True, "ttl": 60.0}
    assert direct.inspect(name)["holders"][0]["fence"] == lease["fence"]
    assert answer_of(waiting).status in (503, 504)
    proxy.heal()
    eventually(lambda: node.send("GET", "/readyz").status == 200)
    eventually(lambda: node.call("renew", {"leases": [held(lease)]}).status == 200)
    assert node.renew(lease)[0]["held"] is True
    assert node.release(lease) == [True]


def _refused(node: Node, verb: str, body: object) -> Reply | None:
    """The answer of a node that is cut off, once the outcome is certain."""
    reply = node.call(verb, body)
    assert reply.status in (503, 504), reply
    return None if reply.status == 504 else reply
