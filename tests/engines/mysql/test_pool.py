"""The links of one client are lent in turn: nobody starves while others ask again and again."""

from __future__ import annotations

import pytest

from fencelock import Unavailable
from fencelock.engines.mysql.wire.pool import Pool
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import mariadb
from tests.servers.shared import shared


async def only_link(lab: Lab, table: str, request_timeout: float) -> Pool:
    """The pool of a client that has room for one link."""
    url = shared(mariadb).url()
    client = await lab.connect(url, table=table, pool=1, request_timeout=request_timeout)
    pool: Pool = client._core.engine._mode._pool  # type: ignore[attr-defined]
    return pool


def test_a_link_that_comes_back_goes_to_who_has_waited_longest(flavor: str, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        pool = await only_link(lab, table, 20)
        link = await pool.lend()
        waiting = lab.start(pool.lend())
        await lab.until(lambda: pool._queue, "somebody who waits for a link")
        pool.give_back(link)
        assert not pool._free  # there is nothing for whoever asks again at once
        assert await waiting.result() is link
        pool.give_back(link)
        assert await pool.lend() is link
        pool.give_back(link)

    run(flavor, scenario)


def test_who_has_waited_too_long_for_a_link_leaves_the_line(flavor: str, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        pool = await only_link(lab, table, 0.5)
        link = await pool.lend()
        with pytest.raises(Unavailable, match=r"in use for 0\.5 s"):
            await pool.lend()
        pool.give_back(link)
        assert await pool.lend() is link
        pool.give_back(link)

    run(flavor, scenario)
