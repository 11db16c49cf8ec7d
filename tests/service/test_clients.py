"""The clients in examples/clients, each in its own language, against a real node."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.program import Program, eventually
from tests.servers.server import Missing
from tests.service.nodes import Node
from tests.service.test_access import VERBS, Tokens, identity, right, start

pytestmark = pytest.mark.timeout(600)  # Go compiles its library, the first time
FOLDER = Path(__file__).parents[2] / "examples" / "clients"


def tool(name: str, package: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if found is None:
        raise Missing(f"{name} is not installed: sudo apt-get install {package}")
    return found


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Go client, built once."""
    folder = tmp_path_factory.mktemp("go")
    program = folder / "lock"
    environment = {**os.environ, "GO111MODULE": "off"}
    command = [tool("go", "golang"), "build", "-o", str(program), str(FOLDER / "lock.go")]
    built = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr
    return program


class Client:
    """One of the clients. It holds a lock, prints its fence and works for so many seconds."""

    def __init__(self, language: str, request: pytest.FixtureRequest) -> None:
        self.language = language
        if language == "shell":
            tool("curl", "curl")
        elif language == "javascript":
            self.node = tool("node", "nodejs")
        else:
            self.program: Path = request.getfixturevalue("go_program")

    def start(self, url: str, token: str, name: str, work: float) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "FENCELOCK_SERVICE": url,
            "FENCELOCK_TOKEN": token,
            "WORK": f"{work}s",
            "WORK_MS": f"{1000 * work:.0f}",
        }
        command = {
            "shell": lambda: [
                *(str(FOLDER / "lock.sh"), name, "sh", "-c", f'echo "$FENCE"; exec sleep {work}')
            ],
            "javascript": lambda: [self.node, str(FOLDER / "lock.mjs"), name],
            "go": lambda: [str(self.program), name],
        }[self.language]()
        return subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )


@pytest.fixture(params=["shell", "javascript", "go"])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(str(request.param), request)


class Shop:
    def __init__(self, program: Program) -> None:
        self.tokens = Tokens(program, "a", "root")
        text = identity(self.tokens, "a", right("", "acquire"))
        self.node: Node = start(program, text + identity(self.tokens, "root", right("", *VERBS)))

    def holders(self, name: str) -> list[dict[str, object]]:
        reply = self.node.call("inspect", {"name": name}, self.tokens["root"])
        found: list[dict[str, object]] = reply.body["holders"]
        return found


@pytest.fixture
def shop(program: Program) -> Shop:
    return Shop(program)


def test_a_client_acquires_works_and_releases(client: Client, shop: Shop) -> None:
    """Two of them at once: one after the other, with growing fences."""
    both = [client.start(shop.node.url, shop.tokens["a"], "seat:1A", 0.3) for _ in range(2)]
    fences = []
    for process in both:
        out, err = process.communicate(timeout=100)
        assert process.returncode == 0, err
        fences.append(int(out))
    assert len({*fences}) == 2
    assert shop.holders("seat:1A") == []


def test_a_client_renews_and_stops_when_its_lock_is_revoked(client: Client, shop: Shop) -> None:
    """It works for longer than it is renewed for, and ends before another may begin."""
    process = client.start(shop.node.url, shop.tokens["a"], "seat:1A", 90)
    eventually(lambda: shop.holders("seat:1A"))
    (before,) = shop.holders("seat:1A")
    eventually(lambda: _renewed(shop, before))
    body = {"name": "seat:1A", "reason": "a test"}
    assert shop.node.call("revoke", body, shop.tokens["root"]).body["revoked"] is True
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "lost" in err


def _renewed(shop: Shop, before: dict[str, object]) -> bool:
    (now,) = shop.holders("seat:1A")
    assert now["fence"] == before["fence"]
    return float(str(now["age"])) + float(str(now["remaining"])) > 35


def test_a_client_that_may_not_does_not_try_for_ever(client: Client, shop: Shop) -> None:
    process = client.start(shop.node.url, "wrong", "seat:1A", 0)
    _, err = process.communicate(timeout=100)
    assert process.returncode != 0
    assert err
