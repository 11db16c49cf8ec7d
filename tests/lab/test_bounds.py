"""How much a play may take: less for somebody who waits for it at the page."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from fencelock import lab
from fencelock.errors import UsageError
from fencelock.lab.page import PageServer
from fencelock.lab.player import LIVE_STEPS_MAX, STEPS_MAX

BUSY = ["work 0.02", "again"]


@pytest.fixture
def server() -> Iterator[PageServer]:
    serving = PageServer(0, {}, "")
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield serving
    serving.shutdown()
    serving.server_close()
    thread.join(10)


def document(until: float) -> dict[str, Any]:
    facts = {"v": 1, "title": "Long", "until": until, "engine": {"kind": "store"}}
    return facts | {"actors": {"A": {"client": "none", "script": BUSY}}}


def test_the_page_refuses_a_play_that_takes_too_long_in_words(server: PageServer) -> None:
    body = json.dumps({"document": document(300)}).encode()
    call = Request(f"{server.url}play", body, {"Content-Type": "application/json"})
    with pytest.raises(HTTPError) as refused:
        urlopen(call, timeout=60)
    with refused.value as answer:
        assert answer.code == 422
        said = json.load(answer)["error"]
    assert said.startswith(f"the play has not come to 300 s within {LIVE_STEPS_MAX} steps (")
    assert said.endswith(": let it end earlier, or let its scripts do less")


def test_whoever_plays_without_the_page_may_take_more() -> None:
    long = document(300)
    assert lab.play(long).outcome["broken"] == []
    with pytest.raises(UsageError, match=f"within {LIVE_STEPS_MAX} steps"):
        lab.play(long, steps_max=LIVE_STEPS_MAX)
    assert STEPS_MAX > LIVE_STEPS_MAX


@pytest.mark.parametrize("name", lab.scenarios())
def test_a_scenario_takes_a_small_part_of_what_the_page_allows(name: str) -> None:
    lab.play(lab.load(name), steps_max=LIVE_STEPS_MAX // 5)
