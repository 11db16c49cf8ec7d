"""Push between the processes of one machine: each client that waits owns a Unix datagram socket.

A message is the owner id of the waiter that should look again.  The sockets lie in a folder beside the
database, so whoever can reach the file can reach them.  A dead process is noticed when it is called: the
kernel refuses the message.  Where there are no such sockets, ``receive`` just lets time pass, and the
engine looks at the file instead.
"""

from __future__ import annotations

import os
import select
import socket
import time
import weakref
from enum import Enum

ADDRESS_MAX = 100  # bytes of a socket's path that every system takes
MESSAGE_MAX = 64
SILENT = "-"  # begins the id of an inbox without a socket

_open: weakref.WeakSet[Inbox] = weakref.WeakSet()


class Delivery(Enum):
    """What became of a push."""

    SENT = 1
    DEAD = 2
    """Nobody is there any more."""
    UNKNOWN = 3
    """It could not be sent; the receiver's own slow look makes up for it."""


class Inbox:
    """Where a client hears that one of its waiters should look again."""

    def __init__(self, folder: str, identity: str, push: bool) -> None:
        self._folder = folder
        self._descriptor: int | None = None
        self._socket: socket.socket | None = None
        self._out: socket.socket | None = None
        self.id = identity
        if push and hasattr(socket, "AF_UNIX") and os.name == "posix":
            self._bind()
        if self._socket is None:
            self.id = SILENT + identity

    def _bind(self) -> None:
        receiver = None
        try:
            mode = os.stat(self._folder.removesuffix("-inbox")).st_mode & 0o666
            self._make_folder(mode)
            self._bury_dead()
            receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            receiver.setblocking(False)
            receiver.bind(self._address(self.id))
            os.chmod(self._address(self.id), mode)
        except OSError:
            if receiver is not None:
                receiver.close()
            return  # no push here: a read-only folder, a file system without sockets
        self._socket = receiver
        _open.add(self)

    def _make_folder(self, mode: int) -> None:
        if not os.path.isdir(self._folder):
            os.makedirs(self._folder, exist_ok=True)
            os.chmod(self._folder, mode | (mode & 0o444) >> 2)
        if len(os.fsencode(self._folder)) + len(self.id) > ADDRESS_MAX and os.path.isdir("/proc/self/fd"):
            self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def _address(self, inbox: str) -> str:
        """A path short enough for a socket: long folders are reached through a descriptor."""
        folder = self._folder if self._descriptor is None else f"/proc/self/fd/{self._descriptor}"
        return os.path.join(folder, inbox)

    def _bury_dead(self) -> None:
        """Remove the sockets of processes that died without closing theirs."""
        for inbox in os.listdir(self._folder):
            if self.send(inbox, b"") is Delivery.DEAD:
                try:
                    os.unlink(self._address(inbox))
                except OSError:
                    pass  # another process was quicker

    def send(self, inbox: str, message: bytes) -> Delivery:
        """Push to another client's inbox."""
        if inbox.startswith(SILENT):
            return Delivery.UNKNOWN
        if self._out is None:
            if not hasattr(socket, "AF_UNIX"):
                return Delivery.UNKNOWN
            self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._out.setblocking(False)
        try:
            self._out.sendto(message, self._address(inbox))
        except (ConnectionRefusedError, FileNotFoundError):
            return Delivery.DEAD
        except OSError:
            return Delivery.UNKNOWN
        return Delivery.SENT

    def receive(self, timeout: float) -> list[str]:
        """Wait for messages and return them; nothing when time is up."""
        if self._socket is None:
            time.sleep(timeout)
            return []
        try:
            ready, _, _ = select.select([self._socket], [], [], timeout)
        except (OSError, ValueError):  # closed meanwhile
            return []
        messages: list[str] = []
        while ready and len(messages) < 1000:
            try:
                messages.append(self._socket.recv(MESSAGE_MAX).decode("ascii", "replace"))
            except OSError:
                break
        return [message for message in messages if message]

    def wake(self) -> None:
        """End a ``receive`` that is under way."""
        if self._socket is not None:
            self.send(self.id, b"")

    def close(self) -> None:
        """Remove the socket."""
        if self._socket is not None:
            try:
                os.unlink(self._address(self.id))
            except OSError:
                pass  # the folder may be gone
        self._drop()

    def _drop(self) -> None:
        for end in (self._socket, self._out):
            if end is not None:
                end.close()
        self._socket = self._out = None
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


def _in_child() -> None:
    """A forked child must not keep the parent's sockets open: its death could not be noticed."""
    for inbox in list(_open):
        inbox._drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
