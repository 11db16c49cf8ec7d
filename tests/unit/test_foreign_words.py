"""What one client writes stands in another's errors, log and events: it must not act there.

A line break forges a line of the log, an escape code moves the cursor or paints, a lone surrogate
makes ``print`` fail.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import observe
from fencelock._client.holder_meta import not_in_time
from fencelock.model import Busy, shown
from tests.faults.flavors import FLAVORS, Lab, make_due, run
from tests.servers.redis import Redis
from tests.servers.shared import shared

NASTY = "calm\nCRITICAL all is lost\r\x1b[2J\x1b]0;title\x07\u2028\u202e\x85\x00"
EVIL = NASTY + "\ud800"


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return shared(Redis).fresh_url()
    return "memory://foreign" if request.param == "memory" else f"sqlite:///{tmp_path}/locks.db"


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def harmless(text: str) -> bool:
    return text.isprintable() and "calm" in text


def test_meta_of_a_holder_does_not_act_in_the_error_of_a_waiter(flavor: str, url: str) -> None:
    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(url), await lab.connect(url)
        lease = await one.lock("seat", meta={f"note{EVIL}": EVIL}).acquire()
        with pytest.raises(fencelock.AcquireTimeout) as caught:
            await other.lock("seat").acquire(timeout=0.05)
        await lease.release()
        assert harmless(str(caught.value))

    run(flavor, scenario)


def test_a_reason_does_not_act_in_errors_log_and_events(
    flavor: str, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[observe.Event] = []

    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(url), await lab.connect(url)
        lease: Any = await one.lock("seat", ttl=60).acquire()
        await other.revoke("seat", NASTY)
        make_due(lease)
        await lab.until(lambda: bool(seen), "the loss to be told")
        with pytest.raises(fencelock.Revoked) as caught:
            lease.check()
        texts = [str(caught.value), caught.value.reason, lease.reason, seen[0].detail]
        assert [text for text in texts if not harmless(text)] == []

    unsubscribe = observe.subscribe(lambda event: seen.append(event) if event.kind == "lost" else 0)
    try:
        with caplog.at_level(logging.WARNING, "fencelock"):
            run(flavor, scenario)
    finally:
        unsubscribe()
    told = [record.getMessage() for record in caplog.records if "calm" in record.getMessage()]
    assert [harmless(text) for text in told] == [True]


@pytest.mark.parametrize(
    "holder", ["", "[]", "no json\n\x1b[2J", "7", '"x"', "{", '{"a": {"b": []}}']
)
def test_what_another_program_says_of_itself_may_be_anything(holder: str) -> None:
    text = str(not_in_time("seat", 1, Busy(1.0, holder=holder)))
    assert text.startswith("'seat' was not acquired in 1 s: held by ")
    assert text.isprintable()


def test_what_is_shown_stays_as_it_is_where_it_does_no_harm() -> None:
    assert shown("plain, ä, 漢, 🙂") == "plain, ä, 漢, 🙂"
    assert shown(EVIL).isprintable()
    assert len(shown(EVIL)) == len(EVIL)
