"""A server whose disk is full: calls end, nothing is half done, and room makes it well again."""

from __future__ import annotations

import itertools
from pathlib import Path

import fencelock
from tests.faults.disk import fill, small_disk
from tests.servers.mariadb import SqlServer

SMALL = {
    True: ("innodb-log-file-size=4M", "innodb-data-file-path=ibdata1:12M", "aria-log-file-size=8M"),
    False: (),
}


def test_a_full_disk_leaves_no_half_grant(
    tmp_path: Path, table: str, kind: type[SqlServer]
) -> None:
    """H74: what was held stays held, and what is refused leaves nothing behind."""
    with small_disk(tmp_path / "disk", 200) as disk:
        server = kind(*SMALL[kind.is_mariadb], folder=disk / "server")
        with server:
            with fencelock.connect(server.url(), table=table, request_timeout=5) as client:
                before = client.lock("seat:0").acquire()
                filler = fill(disk)
                meta = {"note": "x" * 3000}  # so that a table must grow
                held = [before]
                for number in range(1, 300):
                    try:
                        held.append(client.lock(f"seat:{number}", meta=meta).acquire())
                    except (fencelock.EngineError, fencelock.OutcomeUnknown):
                        break
                assert len({lease.fence for lease in held}) == len(held)
                filler.unlink()
                after = acquire_after(client, server)
                assert after.fence > max(lease.fence for lease in held)
                for lease in [*held, after]:
                    lease.release()


def acquire_after(client: fencelock.Client, server: SqlServer) -> fencelock.Lease:
    """Acquire once there is room: some servers end when they cannot write their log, sooner or
    later, and have to be started again."""
    for number in itertools.count():
        assert server.process is not None
        if server.process.poll() is not None:
            server.start()
        try:
            return client.lock(f"after:{number}", timeout=20).acquire()
        except (fencelock.EngineError, fencelock.OutcomeUnknown):
            if number == 5:
                raise
    raise AssertionError
