"""A wait goes on by polling where no descriptor is left for a socket."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

import fencelock
from fencelock import aio
from fencelock.engines.sqlite.wire.inbox import Inbox, InboxFolder


def no_socket(*_: Any) -> NoReturn:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_wait_without_a_descriptor_polls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    with fencelock.connect(url) as holder, fencelock.connect(url) as client:
        with holder.lock("seat", ttl=60):
            monkeypatch.setattr(socket, "socket", no_socket)
            assert client.lock("seat").try_acquire(timeout=0.05) is None
        with client.lock("seat", ttl=60) as lease:
            assert lease


def test_a_wait_of_a_task_without_a_descriptor_polls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"

    async def main() -> None:
        async with aio.connect(url) as holder, aio.connect(url) as client:
            async with holder.lock("seat", ttl=60):
                monkeypatch.setattr(socket, "socket", no_socket)
                assert await client.lock("seat").try_acquire(timeout=0.05) is None
            async with client.lock("seat", ttl=60) as lease:
                assert lease

    asyncio.run(main())


def test_a_socket_whose_name_was_removed_is_made_again_once_there_is_a_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "locks.db")
    Path(path).touch()
    folder = InboxFolder(path)
    mine = Inbox(folder, "mine", push=True)
    folder.send("mine", b"")  # it has a socket to send by
    folder.remove("mine")
    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", no_socket)
        assert mine.heal()
        assert mine.receive(0.001) == []
    assert mine.heal()
    folder.send("mine", b"hello")
    assert mine.receive(20.0) == ["hello"]
    mine.close()
    folder.close()
