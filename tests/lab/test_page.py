"""The page of the lab, in a real browser, and the server that plays for it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from fencelock import lab
from fencelock.lab.page import PageServer
from tests.cli.program import Program, end
from tests.service.browsers import Scheme, opened

PAGES = Path(lab.__file__).parent / "pages"
UNSAFE = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")


def shown(page: Page) -> None:
    expect(page.locator(".chart svg .bar").first).to_be_visible()


def ruled(page: Page, question: str) -> Any:
    return page.locator(".lights li", has_text=question)


def violations(page: Page) -> str:
    results = Axe().run(page)
    return "" if not results.violations_count else str(results.generate_report())


def test_the_keyboard_alone_completes_the_ghost_writer(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        shown(page)
        expect(page.get_by_role("heading", name="The ghost writer")).to_be_visible()
        heading = page.locator(".story h2")
        expect(heading).to_have_text("Before step 1 of 6")
        said: list[str] = []
        for _ in range(40):
            page.keyboard.press("ArrowRight")
            text = page.locator(".story p").inner_text()
            said += [text] if text not in said else []
            if heading.inner_text() == "Step 6 of 6":
                break
        told = lab.play(lab.load("ghost-writer")).data["steps"]
        assert [one["say"] for one in told] == said[-6:]
        expect(page.locator(".stage .resource")).to_contain_text("highest fence 34 · 1 refused")
        assert page.locator(".lights .red").count() == 0
        page.keyboard.press("Home")
        slider = page.get_by_role("slider", name="Moment")
        expect(slider).to_have_attribute("aria-valuenow", "0")
        page.keyboard.press("Space")
        expect(page.locator(".controls").get_by_role("button", name="Pause")).to_be_visible()
        page.keyboard.press("Space")
        expect(page.locator(".controls").get_by_role("button", name="Play")).to_be_visible()
        page.keyboard.press("End")
        expect(slider).to_have_attribute("aria-valuenow", "14")
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".events [aria-current]")).to_contain_text("no longer its own")


def test_a_switch_plays_again_and_a_light_turns_red_when_its_promise_breaks(
    browser: Browser, url: str
) -> None:
    with opened(browser, url) as page:
        shown(page)
        expect(page.locator(".end")).to_contain_text("Bob is written, 1 write taken, 1 refused")
        page.get_by_role("button", name="no guard").click()
        expect(page.locator(".end")).to_contain_text("Alice is written, 2 writes taken, 0 refused")
        light = ruled(page, "no acknowledged update is lost")
        expect(light).to_have_class("held")
        light.get_by_role("button").click()
        expect(light).to_have_class("red")
        expect(light).to_contain_text("B wrote Bob and A wrote Alice")
        (broken,) = [
            one["violations"][0]["at"]
            for one in lab.play(lab.load("ghost-writer", fence="no guard")).verdict
            if one["violations"]
        ]
        slider = page.get_by_role("slider", name="Moment")
        expect(slider).to_have_attribute("aria-valuenow", f"{broken:.3f}")
        page.keyboard.press("ArrowLeft")
        expect(light).to_have_class("held")


def test_a_click_freezes_a_process_from_the_playhead_on(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        shown(page)
        page.get_by_role("combobox", name="Scenario").select_option("taking-turns")
        expect(page.get_by_role("heading", name="Taking turns")).to_be_visible()
        page.get_by_role("button", name="Next step").click()
        slider = page.get_by_role("slider", name="Moment")
        moment = slider.get_attribute("aria-valuenow")
        page.get_by_role("button", name="A ❄ freeze").click()
        events = page.get_by_role("region", name="Events")
        expect(events).to_contain_text("is frozen")
        expect(page.locator(".chart .bar.frozen").first).to_be_visible()
        expect(slider).to_have_attribute("aria-valuenow", str(moment))
        expect(page.get_by_role("button", name="A ❄ frozen")).to_be_disabled()
        assert page.locator(".story h2").count() == 0, "the narrator tells of another play"
        page.get_by_role("button", name="Take back").click()
        expect(page.locator(".story h2")).to_be_visible()
        expect(events).not_to_contain_text("is frozen")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_scenario_is_drawn_for_everybody(browser: Browser, url: str, scheme: Scheme) -> None:
    with opened(browser, url, scheme=scheme) as page:
        shown(page)
        for name in lab.scenarios():
            page.get_by_role("combobox", name="Scenario").select_option(name)
            title = lab.scenario(name)["title"]
            expect(page.get_by_role("heading", level=1)).to_contain_text(title)
            outcome = lab.play(lab.load(name)).outcome
            for _ in range(100):  # at the end of what was shown before, it plays another one
                page.get_by_role("slider").press("End")
                if page.locator(".lights .red").count() == len(outcome["broken"]):
                    break
                page.wait_for_timeout(50)
            expect(page.locator(".lights .red")).to_have_count(len(outcome["broken"]))
            expect(page.locator(".end")).to_contain_text(f"{outcome['refused']} refused")
        assert violations(page) == ""
        page.set_viewport_size({"width": 390, "height": 800})
        for name in ("ghost-writer", "redlock-clock-jump"):
            page.get_by_role("combobox", name="Scenario").select_option(name)
            expect(page.get_by_role("heading", level=1)).to_contain_text(
                lab.scenario(name)["title"]
            )
            assert violations(page) == ""
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_only_its_own_page_may_call_it(url: str) -> None:
    host = url.removeprefix("http://").rstrip("/")
    document = json.dumps({"document": lab.scenario("ghost-writer")})
    kind = {"Content-Type": "application/json"}

    def call(path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(host, timeout=60)
        method = "GET" if body is None else "POST"
        connection.request(method, path, body, {**kind, **headers})
        reply = connection.getresponse()
        text = reply.read().decode()
        connection.close()
        return reply.status, text

    assert call("/play", document)[0] == 200
    assert call("/play", document, Origin=f"http://{host}")[0] == 200
    assert call("/play", document, Origin="http://evil.example")[0] == 403
    assert call("/play", document, Origin="null")[0] == 403
    assert call("/scenarios", Host="evil.example")[0] == 421
    assert call("/", Host=f"evil.example:{host.partition(':')[2]}")[0] == 421
    kind["Content-Type"] = "text/plain"
    assert call("/play", document)[0] == 415
    kind["Content-Type"] = "application/json"
    assert call("/play", "", **{"Content-Length": "1000001"})[0] == 413
    assert call("/play", "{")[0] == 400
    assert call("/play", "[" * 200_000)[0] in (400, 422)
    for body, why in (
        ("[]", "a call: an object"),
        ('{"document": []}', "document: an object"),
        ('{"document": {}, "switches": {"fence": 1}}', "switches: an object"),
        ('{"document": {"v": 2}}', "v: this is version 1"),
        ('{"document": {}, "edits": []}', "edits: an object"),
        ('{"document": {}, "edits": {"steps": []}}', "edits: 'steps' is unknown"),
        ('{"document": {}, "edits": {"scripts": {"A": []}}}', "edits.scripts: there is no actor"),
        ('{"document": {"v": 1}, "edits": {"faults": 1}}', "until: a number"),
        ('{"document": {}, "more": 1}', "'more' is unknown"),
    ):
        status, text = call("/play", body)
        assert (status, why in json.loads(text)["error"]) == (422, True), text
    for path in ("/pages/../page.py", "/pages/index.html", "/web/vendor/SHA256SUMS", "/x"):
        assert call(path)[0] == 404, path


def test_a_changed_scenario_is_played_without_its_narrator(url: str) -> None:
    raw = lab.scenario("ghost-writer")
    faults = [*raw["faults"], {"kind": "crash", "whom": "B", "at": 5.7}]
    call = {"document": raw, "edits": {"faults": faults, "scripts": {"A": ["acquire seat ttl 3"]}}}
    connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=60)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/play", json.dumps(call), headers)
    trace = json.loads(connection.getresponse().read())
    connection.close()
    assert (trace["steps"], trace["expect"]) == ([], None)
    assert trace["document"]["faults"] == faults
    assert trace["document"]["actors"]["A"]["script"] == ["acquire seat ttl 3"]
    assert trace["document"]["actors"]["B"] == raw["actors"]["B"]
    assert "switches" not in trace["document"]
    assert [one["lane"] for one in trace["events"] if one["kind"] in ("pause", "crash")] == [
        "A",
        "B",
    ]


def test_the_page_has_a_strict_policy_and_files_of_its_own(url: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://").rstrip("/"), timeout=60)
    connection.request("GET", "/")
    reply = connection.getresponse()
    page, policy = reply.read().decode(), reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "trusted-types 'none'" in policy
    assert "unsafe" not in policy
    for path in re.findall(r'(?:src|href)="([^"]+)"|: "\./([^"]+)"', page):
        connection.request("GET", f"/{path[0] or path[1]}")
        reply = connection.getresponse()
        reply.read()
        assert (reply.status, reply.headers["X-Content-Type-Options"]) == (200, "nosniff"), path
        connection.request(
            "GET", f"/{path[0] or path[1]}", None, {"If-None-Match": reply.headers["ETag"]}
        )
        again = connection.getresponse()
        assert (again.status, again.read()) == (304, b"")
    connection.close()
    for file in PAGES.iterdir():
        text = file.read_text(encoding="utf-8")
        assert not [word for word in UNSAFE if word in text], file
        assert not re.search(
            r"""https?://|@import|url\((?!"#)|(?:src|href|from )=?["']/""", text
        ), file


def test_what_cannot_be_shown_is_said_in_a_line(program: Program, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = program.run("lab", "--no-browser", "--port", str(port))
        assert (ran.returncode, ran.stdout) == (78, "")
        assert f"port {port} cannot be used: Address already in use" in ran.stderr
    (tmp_path / "mine.json").write_text('{"v": 1, "until": 1}')
    for words, code, why in (
        (("nowhere",), 78, "'nowhere' is neither a file nor a scenario"),
        (("mine.json",), 78, "engine.kind: a text"),
        (("ghost-writer", "more"), 125, "'ghost-writer' is not an action"),
        (("ghost-writer", "--set", "fence=guard"), 125, "--set is for play"),
        (("ls", "--port", "0"), 125, "--port and --no-browser are for the page"),
        (("--port", "70000"), 125, "--port"),
    ):
        ran = program.run("lab", *words)
        assert (ran.returncode, ran.stdout) == (code, ""), ran
        assert why in ran.stderr
        assert "Traceback" not in ran.stderr
        assert ran.stderr.count("\n") == 1


def test_a_document_of_ones_own_is_shown_first(
    browser: Browser, program: Program, tmp_path: Path
) -> None:
    document = lab.scenario("ghost-writer") | {"title": "<b>Mine</b>"}
    (tmp_path / "mine.json").write_text(json.dumps(document))
    process = program.start("lab", "mine.json", "--no-browser", "--json")
    assert process.stdout is not None
    with opened(browser, json.loads(process.stdout.readline())["url"]) as page:
        expect(page.get_by_role("heading", level=1)).to_contain_text("<b>Mine</b>")
    process.send_signal(signal.SIGTERM)
    assert end(process).stderr == ""


def test_a_defect_is_answered_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(document: object) -> None:
        raise LookupError("a defect")

    monkeypatch.setattr("fencelock.lab.page.played", fail)
    with PageServer(0, {}, "") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            body = json.dumps({"document": lab.load("ghost-writer")})
            connection.request("POST", "/play", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 500
            assert "a defect of the lab" in json.loads(answer.read())["error"]
            connection.close()
        finally:
            server.shutdown()
            thread.join()
