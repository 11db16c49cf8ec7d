"""Several processes on one address: one fails, all end, and none where locks would end with it."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from tests.cli.program import Program, children, eventually
from tests.service.nodes import Node, held


def started(program: Program, count: int = 3, *words: str) -> Node:
    return Node(program, "--insecure", "--drain", "0s", "--workers", str(count), *words)


def serves(node: Node) -> bool:
    try:
        return node.send("GET", "/healthz").status == 200
    except OSError:
        return False


def test_workers_share_an_address_and_the_locks(program: Program) -> None:
    node = started(program)
    assert len(children(node.process.pid)) == 3
    lease = node.acquire("seat", ttl=60)
    for _ in range(20):  # whichever of them is asked
        assert node.call("acquire", {"name": "seat"}).problem == "busy"
        assert node.renew(lease)[0]["held"] is True
    assert node.release(lease) == [True]
    assert node.stop() == 0
    assert program.marked() == []


def test_a_worker_that_dies_is_replaced_and_holders_keep_their_locks(program: Program) -> None:
    """H76: one process of several is killed, and later all of them."""
    node = started(program, 2)
    lease = node.acquire("seat", ttl=600)
    for _ in range(2):
        before = {*children(node.process.pid)}
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda b=before: len({*children(node.process.pid)} - b) == 2)  # type: ignore[misc]
        eventually(lambda: serves(node))
        eventually(lambda: node.call("renew", {"leases": [held(lease)]}).status == 200)
        assert node.renew(lease)[0]["held"] is True
    assert node.stop() == 0


def test_workers_end_with_their_parent(program: Program) -> None:
    node = started(program)
    assert len(program.marked()) == 4
    node.stop(signal.SIGKILL)
    eventually(lambda: program.marked() == [])


def test_a_term_drains_all_workers(program: Program) -> None:
    node = started(program)
    lease = node.acquire("seat", ttl=60)
    polls = [node.begin("acquire", {"name": "seat", "wait": 55}) for _ in range(6)]
    node.queue("seat", 6)
    assert node.stop() == 0
    for poll in polls:
        with poll:
            assert poll.recv(4096).startswith(b"HTTP/1.1 503")
    with program.client() as client:
        (holder,) = client.inspect("seat").holders
        assert holder.fence == lease["fence"]


def test_a_reload_reaches_all_workers(program: Program) -> None:
    from tests.service.nodes import configured
    from tests.service.test_access import Tokens, identity, right

    tokens = Tokens(program, "a", "b")
    file = Path(configured(program.folder, identity(tokens, "a", right("", "observe"))))
    node = Node(program, "--config", str(file), "--drain", "0s", "--workers", "2")
    assert node.call("about", token=tokens["a"]).status == 200
    file.write_text(identity(tokens, "b", right("", "observe")))
    node.process.send_signal(signal.SIGHUP)
    eventually(lambda: all(node.call("about", token=tokens["b"]).status == 200 for _ in range(8)))
    assert node.stop() == 0


def test_an_engine_whose_locks_end_with_a_process_has_no_workers(program: Program) -> None:
    words = ["serve", "--insecure", "--port", "0", "--workers", "2", "--url", "memory://"]
    ran = program.run(*words)
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "outlive a process" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert "Traceback" not in ran.stderr


def test_workers_without_an_engine_do_not_listen(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    words = ["--port", "0", "--workers", "2", "--url", f"redis://127.0.0.1:{port}"]
    ran = program.run("serve", "--insecure", *words)
    assert (ran.returncode, ran.stdout) == (69, "")
    assert "Traceback" not in ran.stderr


def test_systemd_is_told_once(program: Program, tmp_path: Path) -> None:
    where = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.settimeout(60)
        notified.bind(str(where))
        program.environment["NOTIFY_SOCKET"] = str(where)
        node = started(program, 2)
        assert notified.recv(100) == b"READY=1"
        assert node.stop() == 0
        notified.setblocking(False)
        try:
            said = notified.recv(100)
        except BlockingIOError:
            said = b""
        assert said in (b"", b"STOPPING=1")
