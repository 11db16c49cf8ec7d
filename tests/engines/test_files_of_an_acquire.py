"""To follow a free lock through the code, few files have to be opened."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import fencelock
from fencelock import aio
from tests.conformance.variants import VARIANTS

PACKAGE = Path(fencelock.__file__).parent
CLIENT_MAX = 12
"""The same for every engine: nine for the client, its values, and the world it runs in. Three more
at times: its renewal is planned at once, an older request is taken back, or a reply is late."""
STORE_MAX = {"redis": 5, "postgresql": 7, "etcd": 10}
"""From the engine's recipe down to the socket."""


@contextmanager
def files_that_run() -> Iterator[set[str]]:
    """The files of the package in which a function is called meanwhile, by this thread."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(PACKAGE):
            seen.add(file.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    gc.disable()  # or what other tests have left is destroyed here
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(before)
        gc.enable()


def are_few(files: set[str], variant: str) -> None:
    store = {file for file in files if file.startswith(("engines/", "wires/"))}
    assert len(store) <= STORE_MAX[variant], " ".join(sorted(store))
    assert len(files - store) <= CLIENT_MAX, " ".join(sorted(files - store))


@pytest.mark.parametrize("variant", STORE_MAX)
def test_a_free_acquire_passes_through_few_files_with_threads(variant: str, tmp_path: Path) -> None:
    url, options = VARIANTS[variant](tmp_path)
    with fencelock.connect(url, **options) as client:
        lock = client.lock("known")
        with lock:
            pass
        with files_that_run() as files:
            lease = lock.acquire()
        lease.release()
    are_few(files, variant)


@pytest.mark.parametrize("variant", STORE_MAX)
def test_a_free_acquire_passes_through_few_files_with_asyncio(variant: str, tmp_path: Path) -> None:
    url, options = VARIANTS[variant](tmp_path)

    async def main() -> set[str]:
        async with aio.connect(url, **options) as client:
            lock = client.lock("known")
            async with lock:
                pass
            with files_that_run() as files:
                lease = await lock.acquire()
            await lease.release()
            return files

    are_few(asyncio.run(main()), variant)
