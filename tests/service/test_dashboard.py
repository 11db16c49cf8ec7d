"""The dashboard, in a real browser, on real nodes with real holders."""

from __future__ import annotations

import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from fencelock.service.access import digest
from tests.cli.program import Program, line
from tests.servers.redis import Redis
from tests.service.browsers import NO_ANSWER, Scheme, opened, row, started
from tests.service.nodes import Node, configured

CONFIG = """
[[identity]]
name = "oncall"
tokens = ["sha256:{oncall}"]
allow = [
    {{ prefix = "", verbs = ["acquire", "observe"] }}, {{ prefix = "pay", verbs = ["revoke"] }}
]
[[identity]]
name = "worker"
tokens = ["sha256:{worker}"]
allow = [{{ prefix = "", verbs = ["acquire"] }}]
"""
TOKENS = {"oncall": "o" * 43, "worker": "w" * 43}
MARKUP = "<img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as browser:
        yield browser


@pytest.fixture
def open_node(program: Program) -> Iterator[Node]:
    """A node that everybody may call, over a file."""
    node = Node(program, "--insecure", "--drain", "0s")
    yield node
    assert node.stop() == 0


@pytest.fixture
def guarded(program: Program, tmp_path: Path) -> Iterator[Node]:
    """A node that wants to know who calls."""
    text = CONFIG.format(**{name: digest(token) for name, token in TOKENS.items()})
    node = Node(program, "--config", configured(tmp_path, text), "--drain", "0s")
    yield node
    assert node.stop() == 0


def cell(page: Page, name: str, column: str) -> str:
    return page.locator(f"{row(page, name)} .cell.{column}").inner_text()


def live(page: Page) -> None:
    expect(page.locator(".pill")).to_have_text("live")


def test_what_everybody_holds_is_shown_as_it_is_listed(
    browser: Browser, open_node: Node, program: Program
) -> None:
    open_node.acquire("by/service", ttl=600, meta={"job": "nightly"})
    with opened(browser, open_node.url) as page, program.client() as client:
        expect(page.locator(row(page, "by/service"))).to_be_visible()
        assert "job=nightly" in cell(page, "by/service", "holder")
        with (
            client.lock("by/client", ttl=60) as lease,
            client.semaphore("slots", limit=3, ttl=60).acquire() as slot,
            client.rwlock("catalog", ttl=60).read(),
            client.election("boss", ttl=60).campaign(),
            open_node.begin("acquire", {"name": "by/client", "wait": 55}),
        ):
            expect(page.locator(f"{row(page, 'by/client')} .queue")).to_have_text("1")
            assert cell(page, "by/client", "fence") == str(lease.fence)
            expect(page.locator(row(page, "boss"))).to_be_visible()
            assert cell(page, "by/client", "as") == "lock"
            assert cell(page, "slots", "as") == f"slot {slot.slot} of 3"
            assert cell(page, "catalog", "as") == "reader"
            assert cell(page, "boss", "as") == "leader"
            expect(page.get_by_text("5 holders of 5 names, 1 waiting")).to_be_visible()
            page.get_by_label("Kind").select_option("Semaphores")
            expect(page.get_by_text("1 holder of 1 name, 0 waiting")).to_be_visible()
            page.get_by_label("Kind").select_option("All kinds")
            page.get_by_role("searchbox").fill("NIGHTLY")
            expect(page.locator('[role="table"] a')).to_have_text(["by/service"])
            page.get_by_role("searchbox").fill("")
            page.get_by_role("button", name="Held for").click()
            expect(page.locator('[role="columnheader"][aria-sort="ascending"]')).to_have_text(
                re.compile("Held for")
            )
            page.get_by_role("button", name="Held for").click()
            expect(page.locator('[role="table"] a').first).to_have_text("by/service")
        expect(page.get_by_text("1 holder of 1 name, 0 waiting")).to_be_visible()


def test_a_lease_drains_and_jumps_when_it_is_renewed(browser: Browser, open_node: Node) -> None:
    lease = open_node.acquire("leased", ttl=60)
    width = "() => document.querySelector('.lease .fill').getBoundingClientRect().width"
    with opened(browser, open_node.url) as page:
        expect(page.locator(row(page, "leased"))).to_be_visible()
        first = page.evaluate(width)
        page.wait_for_function(f"before => ({width})() < before * 0.95", arg=first)
        drained = page.evaluate(width)
        open_node.renew(lease)
        page.wait_for_function(f"before => ({width})() > before * 1.02", arg=drained)
        page.get_by_role("link", name="leased").click()
        expect(page.get_by_text("renewed 1 time since this page looks")).to_be_visible()


def test_a_frozen_holder_is_late_and_its_loss_is_in_the_feed(
    browser: Browser, open_node: Node, program: Program
) -> None:
    with opened(browser, open_node.url) as page:
        holder = program.start("hold", "payments/1", "--ttl", "12s")
        assert line(holder)
        page.get_by_role("link", name="payments/1").click()
        expect(page.get_by_text(re.compile("renewed [0-9]+ times? since"))).to_be_visible()
        holder.send_signal(signal.SIGSTOP)
        expect(page.get_by_text("late", exact=True)).to_be_visible()
        expect(page.locator("td.expired")).to_be_visible()
        expect(page.get_by_text("Nobody holds it.")).to_be_visible()
        expect(page.locator("nav .badge")).to_have_text("1 new")
        page.get_by_role("link", name=re.compile("^Feed")).click()
        expect(page.locator(".feed li")).to_have_text(re.compile("expired.*payments/1"))
        expect(page.locator("nav .badge")).to_have_count(0)
        page.get_by_role("button", name="Losses").click()
        expect(page.get_by_text("Nothing to report")).to_be_visible()
        holder.kill()


def test_one_lock_shows_its_queue_in_order_and_its_last_tenures(
    browser: Browser, open_node: Node
) -> None:
    first = open_node.acquire("q", ttl=600, meta={"turn": "first"})
    with opened(browser, f"{open_node.url}/#/lock/q") as page, ExitStack() as waiters:
        for turn in ("second", "third"):
            body = {"name": "q", "wait": 55, "ttl": 600, "meta": {"turn": turn}}
            waiters.enter_context(open_node.begin("acquire", body))
            expect(page.locator("ol.queue")).to_contain_text(f"turn={turn}")
        expect(page.locator("ol.queue li").first).to_contain_text("turn=second")
        expect(page.locator("ol.queue li").last).to_contain_text("turn=third")
        open_node.release(first)
        expect(page.locator("ol.queue li")).to_have_count(1)
        expect(page.locator(".holder")).to_contain_text("second")
        expect(page.locator(".tenures tbody tr")).to_have_count(2)
        expect(page.locator(".tenures tbody tr").last).to_contain_text("released")
        expect(page.locator(".lanes svg rect.tenure")).to_have_count(2)


def test_a_lock_is_revoked_with_a_reason_and_its_name_typed(
    browser: Browser, guarded: Node
) -> None:
    body = {"name": "pay/1", "ttl": 600, "meta": {"job": "stuck"}}
    lease = guarded.call("acquire", body, TOKENS["oncall"]).body
    guarded.call("acquire", {"name": "other", "ttl": 600}, TOKENS["oncall"])
    with opened(browser, guarded.url, token=TOKENS["oncall"]) as page:
        page.get_by_role("link", name="other").click()
        expect(page.get_by_role("heading", name="other")).to_be_visible()
        expect(page.get_by_role("button", name="Revoke…")).to_have_count(0)
        page.get_by_role("link", name="← Locks").click()
        page.get_by_role("link", name="pay/1").click()
        page.get_by_role("button", name="Revoke…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Only a guard at the resource")
        expect(dialog.locator(".losers")).to_contain_text("job=stuck")
        expect(dialog.locator(".losers")).to_contain_text(str(lease["fence"]))
        send = dialog.get_by_role("button", name="Revoke")
        reason = dialog.get_by_label("Reason")
        expect(reason).to_be_focused()
        name = dialog.get_by_label("Type the name")
        expect(send).to_be_disabled()
        name.fill("pay/1")
        expect(send).to_be_disabled()
        reason.fill("it hangs")
        expect(send).to_be_enabled()
        name.fill("pay/2")
        expect(send).to_be_disabled()
        name.fill("pay/1")
        send.click()
        expect(dialog).to_contain_text("The next holder has a higher fence")
        page.keyboard.press("Escape")
        expect(page.get_by_text("Nobody holds it.")).to_be_visible()
        expect(page.locator("td.revoked")).to_be_visible()
        page.get_by_role("link", name=re.compile("^Feed")).click()
        expect(page.locator(".feed li")).to_contain_text("by oncall: “it hangs”")
    after = guarded.call("acquire", {"name": "pay/1"}, TOKENS["oncall"]).body
    assert after["fence"] > lease["fence"]


def test_the_token_is_asked_for_and_stays_in_the_tab(browser: Browser, guarded: Node) -> None:
    with opened(browser, guarded.url, token="wrong", expected=NO_ANSWER) as page:
        expect(page.get_by_role("alert")).to_contain_text("does not know that token")
        page.get_by_label("Token").fill(TOKENS["oncall"])
        page.get_by_role("button", name="Look").click()
        live(page)
        kept = page.evaluate("[Object.values(sessionStorage), Object.values(localStorage)]")
        assert kept == [[TOKENS["oncall"]], ["auto"]]
        page.reload()
        live(page)
        page.get_by_role("button", name="Forget token").click()
        expect(page.get_by_label("Token")).to_be_focused()
        assert page.evaluate("sessionStorage.length") == 0


def test_who_may_not_observe_is_told_so(browser: Browser, guarded: Node) -> None:
    with opened(browser, guarded.url, token=TOKENS["worker"], expected=NO_ANSWER) as page:
        expect(page.get_by_role("heading", name="Not allowed")).to_be_visible()
        expect(page.locator("main")).to_contain_text("worker may observe no lock")
        page.get_by_role("link", name="Engine").click()
        expect(page.get_by_text("Only who may observe all names is told")).to_be_visible()


def test_a_name_that_is_markup_stays_a_name(browser: Browser, open_node: Node) -> None:
    meta = {"note": MARKUP, MARKUP: "x"}
    open_node.acquire(MARKUP, ttl=600, meta=meta)
    waiter = open_node.begin("acquire", {"name": MARKUP, "wait": 55, "meta": meta})
    with opened(browser, open_node.url) as page:
        page.get_by_role("link", name=MARKUP).click()
        expect(page.get_by_role("heading", name=MARKUP)).to_be_visible()
        expect(page.locator("ol.queue li")).to_contain_text(MARKUP)
        assert page.locator("img").count() == 1  # the sign of the page
        page.get_by_role("button", name="Revoke…").click()
        page.get_by_label("Reason").fill(MARKUP)
        page.get_by_label("Type the name").fill(MARKUP)
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("dialog")).to_contain_text("Revoked")
        page.keyboard.press("Escape")
        page.get_by_role("link", name=re.compile("^Feed")).click()
        expect(page.locator(".feed li").last).to_contain_text(MARKUP)
        page.get_by_role("link", name="Heat").click()
        expect(page.locator(".heat tbody th")).to_contain_text("<img")
        assert page.locator("img").count() == 1
        assert page.title() == "Heat · Fencelock"
    waiter.close()


def test_nothing_in_the_page_can_become_markup(browser: Browser, open_node: Node) -> None:
    with opened(browser, open_node.url, expected="TrustedHTML") as page:
        live(page)
        refused = page.evaluate(
            "() => { try { document.body.innerHTML = '<b>x</b>'; return false; }"
            " catch (error) { return error.name; } }"
        )
        assert refused == "TypeError"
        assert page.locator("b").count() == 0


def test_the_page_comes_back_after_its_node_was_killed(browser: Browser, program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "0s")
    node.acquire("kept", ttl=600)
    with opened(browser, node.url, expected=NO_ANSWER) as page:
        expect(page.locator(row(page, "kept"))).to_be_visible()
        node.stop(signal.SIGKILL)
        expect(page.get_by_role("alert")).to_contain_text("The service does not answer")
        expect(page.locator(".pill")).to_have_text("no connection")
        expect(page.locator(row(page, "kept"))).to_be_visible()
        with program.client() as client, client.lock("meanwhile", ttl=60):
            again = Node(program, "--insecure", "--drain", "0s", "--port", str(node.port))
            live(page)
            expect(page.locator(row(page, "meanwhile"))).to_be_visible()
            expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator(row(page, "meanwhile"))).to_have_count(0)
        assert again.stop() == 0
        expect(page.locator(".pill")).to_have_text("no connection")


def test_that_the_engine_is_away_is_said(browser: Browser, program: Program) -> None:
    with Redis() as server:
        node = Node(program, "--insecure", "--drain", "0s", url=server.url)
        node.acquire("a", ttl=600)
        with opened(browser, node.url, expected=NO_ANSWER) as page:
            expect(page.locator(row(page, "a"))).to_be_visible()
            server.stop()
            expect(page.get_by_role("alert")).to_contain_text("The engine has been away")
            expect(page.locator(".pill")).to_have_text("engine away")
            server.start()
            live(page)
            page.get_by_role("link", name=re.compile("^Feed")).click()
            expect(page.locator(".feed")).to_contain_text("The engine answers again")
            page.get_by_role("link", name="Engine").click()
            expect(page.locator(".engine-view")).to_contain_text("What its doctor found")
        assert node.stop() == 0


def test_the_engine_is_shown_with_its_promises_and_findings(
    browser: Browser, open_node: Node
) -> None:
    with opened(browser, f"{open_node.url}/#/engine") as page:
        expect(page.locator(".traits")).to_contain_text("first come, first served")
        expect(page.locator(".findings")).to_contain_text("journal: WAL")
        expect(page.locator(".engine-view")).to_contain_text("anonymous")


def test_groups_get_warm(browser: Browser, open_node: Node) -> None:
    leases = [open_node.acquire(f"seat:{number}", ttl=600) for number in range(3)]
    with opened(browser, f"{open_node.url}/#/heat") as page:
        with open_node.begin("acquire", {"name": "seat:1", "wait": 55}):
            expect(page.locator(".heat tbody tr")).to_have_text(re.compile(r"seat:\*\s*1"))
        page.get_by_role("button", name="Held").click()
        expect(page.locator(".heat tbody tr")).to_have_text(re.compile(r"seat:\*\s*3"))
    open_node.release(*leases)


VIEWS = {
    "locks": "Locks",
    "lock/busy": "busy",
    "heat": "Heat",
    "feed": "Feed",
    "engine": "Engine",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible(
    browser: Browser, guarded: Node, program: Program, scheme: Scheme
) -> None:
    token = TOKENS["oncall"]
    for name in ("busy", "pay/1", "pay/2"):
        guarded.call("acquire", {"name": name, "ttl": 600}, token)
    guarded.call("revoke", {"name": "pay/2", "reason": "x"}, TOKENS["worker"])
    with opened(browser, guarded.url, scheme=scheme) as page:
        page.get_by_label("Token").wait_for()
        found = {"login": problems(page)}
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Look").click()
        expect(page.locator(row(page, "busy"))).to_be_visible()  # it sees what comes from now on
        with program.client() as client, client.semaphore("slots", limit=2).acquire():
            guarded.call("revoke", {"name": "pay/2", "reason": "looks stuck"}, token)
            expect(page.locator("nav .badge")).to_have_text("1 new")
            for path, title in VIEWS.items():
                page.goto(f"{guarded.url}/#/{path}")
                expect(page.get_by_role("heading", level=1)).to_have_text(title)
                found[path] = problems(page)
            page.goto(f"{guarded.url}/#/lock/pay%2F1")
            page.get_by_role("button", name="Revoke…").click()
            found["revoke"] = problems(page)
        assert {view: said for view, said in found.items() if said} == {}


def problems(page: Page) -> str:
    results = Axe().run(page)
    return "" if not results.violations_count else str(results.generate_report())


def test_the_keyboard_alone_opens_a_lock_and_leaves_a_dialog(
    browser: Browser, open_node: Node
) -> None:
    open_node.acquire("k", ttl=600)
    with opened(browser, open_node.url) as page:
        expect(page.locator(row(page, "k"))).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_role("searchbox")).to_be_focused()
        press_until(page, "link", "k")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="k", exact=True)).to_be_visible()
        press_until(page, "button", "Revoke…")
        page.keyboard.press("Enter")
        expect(page.get_by_label("Reason")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("button", name="Revoke…")).to_be_focused()


def press_until(page: Page, role: str, name: str) -> None:
    """Press Tab until something is focused that has this role and name."""
    wanted = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
    for _ in range(30):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"{name} cannot be reached")


def test_it_works_below_a_path_of_a_proxy(browser: Browser, open_node: Node) -> None:
    open_node.acquire("behind", ttl=600)
    with prefixed(open_node, "/ops/locks") as url, opened(browser, f"{url}/") as page:
        live(page)
        page.get_by_role("link", name="behind").click()
        expect(page.get_by_role("heading", name="behind")).to_be_visible()
        page.get_by_role("link", name="Engine").click()
        expect(page.locator(".findings")).to_be_visible()


@contextmanager
def prefixed(node: Node, prefix: str) -> Iterator[str]:
    """A proxy that serves a node below a path."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def serve(peer: socket.socket) -> None:
        with peer, socket.create_connection((node.host, node.port)) as behind:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (data := peer.recv(1 << 16)):
                    return
                head += data
            method, path, rest = head.split(b" ", 2)
            assert path.startswith(prefix.encode() + b"/"), path
            rest = rest.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
            rest = rest.replace(b"Connection: keep-alive\r\n", b"")
            behind.sendall(method + b" " + path[len(prefix) :] + b" " + rest)
            back = threading.Thread(target=pump, args=(peer, behind), daemon=True)
            back.start()
            pump(behind, peer)

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{prefix}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def test_ten_thousand_locks_are_as_quick_as_thirty(browser: Browser, program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "0s", url="memory://")
    for first in range(0, 10_000, 1_000):
        wants = [
            {"name": f"n/{number:05}", "id": f"{number:022}", "ttl": 3_000}
            for number in range(first, first + 1_000)
        ]
        while wants:
            reply = node.call("wait", {"inbox": "i", "wants": wants, "hold": 5}).body
            names = {one["name"] for one in reply["granted"]}
            wants = [want for want in wants if want["name"] not in names]
    with opened(browser, node.url) as page:
        expect(page.get_by_text("10,000 holders of 10,000 names")).to_be_visible()
        assert page.locator('[role="row"]').count() < 80
        expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "10001")
        page.locator(".scroll").evaluate("box => box.scrollTo(0, box.scrollHeight)")
        expect(page.get_by_role("link", name="n/09999")).to_be_visible()
        page.get_by_role("searchbox").fill("n/0777")
        expect(page.get_by_text("10 holders of 10 names")).to_be_visible()
        page.get_by_role("searchbox").fill("")
        page.get_by_role("button", name="Name").click()
        expect(page.locator('[role="table"] a').first).to_have_text("n/09999")
        page.goto(f"{node.url}/#/lock/n%2F05000")
        expect(page.get_by_role("heading", name="n/05000")).to_be_visible()
    assert node.stop() == 0


def test_a_stream_on_which_nothing_happens_stays_open(browser: Browser, open_node: Node) -> None:
    """A heart-beat keeps the page from taking a silent stream for a broken one."""
    with opened(browser, open_node.url) as page:
        live(page)
        page.wait_for_function("() => performance.now() > 28_000")
        live(page)
        requests = page.evaluate(
            "performance.getEntriesByType('resource').filter(e => e.name.includes('v1/events'))"
            ".length"
        )
        assert requests == 0  # an entry is made when a response ends: none has
