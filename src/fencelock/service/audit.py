"""The audit: one JSON object on a line for each grant, refusal, release, loss and revocation.

No line has an id or a token. A file that cannot be written stops revocations, not locks. Failed
logins, which any client that reaches the port can cause, are counted: a minute has few lines of
them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping

from ..errors import Misconfigured

COUNTED_S = 60.0  # for which failed logins of one address are counted before they are written
PEERS_MAX = 100  # addresses that are counted one by one; the rest are counted together


class NoAudit:
    """The audit of a service that keeps none."""

    writable = True

    def write(self, event: str, identity: str, peer: str, facts: Mapping[str, object]) -> None:
        """Write nothing."""

    def reopen(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""


class FileAudit:
    """An audit that is appended to a file; a program that rotates the file sends SIGHUP."""

    def __init__(self, path: str, wall_us: Callable[[], int]) -> None:
        self._path = path
        self._wall_us = wall_us
        self.writable = True
        try:
            self._file = self._open()
        except OSError as error:
            raise Misconfigured(
                f"the audit file {path} cannot be written ({error.strerror}): name another one"
            ) from error

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, event: str, identity: str, peer: str, facts: Mapping[str, object]) -> None:
        """Append one line by one write; one that a full disk cut short is ended by the next write.

        The text is ASCII, so that no character of a name can look like the end of a line.
        """
        record = {"at_us": self._wall_us(), "event": event, "identity": identity, "peer": peer}
        data = (json.dumps({**record, **facts}) + "\n").encode()
        try:
            written = os.write(self._file, data if self.writable else b"\n" + data)
        except OSError:
            self.writable = False
        else:
            self.writable = written >= len(data)

    def reopen(self) -> None:
        """Go on in a new file of the same name; if it cannot be opened, in the old one."""
        try:
            new = self._open()
        except OSError:
            return
        os.close(self._file)
        self._file = new

    def close(self) -> None:
        os.close(self._file)


class FailedLogins:
    """Writes the first failed login of an address at once, and the others of a minute as one line.

    Those of the addresses after the first hundred of a minute are one line without an address.
    """

    def __init__(self, write: Callable[[str, int], None]) -> None:
        self._write = write
        self._counts: dict[str, int] = {}
        """By address, how many were not written yet."""
        self._until = 0.0

    def add(self, peer: str, now: float) -> None:
        """Count a failed login of an address."""
        self.flush(now)
        if not self._counts:
            self._until = now + COUNTED_S
        if peer in self._counts:
            self._counts[peer] += 1
        elif len(self._counts) < PEERS_MAX:
            self._counts[peer] = 0
            self._write(peer, 1)
        else:
            self._counts[""] = self._counts.get("", 0) + 1

    def flush(self, now: float) -> None:
        """Write what was counted, if the minute is over."""
        if now >= self._until and self._counts:
            counts, self._counts = self._counts, {}
            for peer, times in counts.items():
                if times:
                    self._write(peer, times)
