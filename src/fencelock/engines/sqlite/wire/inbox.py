"""Push between the processes of one machine: each client that waits owns a Unix datagram socket.

A message is the owner id of the waiter that should try again, or the name that was announced to its
observers. The sockets lie in a folder beside the database, so every process that can reach the file
can reach them. A dead process is noticed when another sends to it: the kernel refuses the message.
Where there are no such sockets, ``receive`` just lets time pass, and the listener reads the file
instead.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from ....wires.poll import READ, wait_for

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

ADDRESS_MAX = 100  # bytes of a socket's path that every system takes
MESSAGE_MAX = 1024  # bytes: a name has 512 at most, an owner id 32
OLD_S = 60.0
SILENT = "-"  # begins the id of an inbox without a socket


class Delivery(Enum):
    """The outcome of a push."""

    SENT = 1
    DEAD = 2
    """The receiver has no socket any more."""
    UNKNOWN = 3
    """It could not be sent; the receiver's own scan makes up for it."""


class InboxFolder:
    """The folder of the sockets, and our socket that sends to any of them."""

    _descriptor: int | None = None
    _sender: socket.socket | None = None

    def __init__(self, path: str) -> None:
        self._database = path
        self._path = path + "-inbox"
        self._mutex = threading.Lock()

    def prepare(self) -> int:
        """Make the folder, with the rights of the file; return those rights for a new socket."""
        mode = os.stat(self._database).st_mode & 0o666
        if not os.path.isdir(self._path):
            os.makedirs(self._path, exist_ok=True)
            os.chmod(self._path, mode | (mode & 0o444) >> 2)
        for inbox in os.listdir(self._path):  # sockets of processes that died without closing
            if self._is_old(inbox) and self.send(inbox, b"") is Delivery.DEAD:
                self.remove(inbox)
        return mode

    def _is_old(self, inbox: str) -> bool:
        """Return whether a socket is too old to be one that has a name but is not reachable yet."""
        try:
            return time.time() - os.stat(os.path.join(self._path, inbox)).st_mtime > OLD_S
        except OSError:
            return False

    def address(self, inbox: str) -> str:
        """Return a path short enough for a socket, through a descriptor if the folder's is long."""
        folder = self._path
        if len(os.fsencode(folder)) + len(inbox) >= ADDRESS_MAX and os.path.isdir("/proc/self/fd"):
            with self._mutex:
                if self._descriptor is None:
                    self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            folder = f"/proc/self/fd/{self._descriptor}"
        return os.path.join(folder, inbox)

    def send(self, inbox: str, message: bytes) -> Delivery:
        """Push to a client's inbox."""
        if inbox.startswith(SILENT) or not _possible():
            return Delivery.UNKNOWN
        try:
            self._sending_socket().sendto(message, self.address(inbox))
        except (ConnectionRefusedError, FileNotFoundError):
            return Delivery.DEAD
        except OSError:
            return Delivery.UNKNOWN
        return Delivery.SENT

    def send_to_all(self, message: bytes, except_for: str) -> None:
        """Push to the inboxes of all clients but one; what cannot be sent is lost."""
        try:
            inboxes = os.listdir(self._path)
        except OSError:
            return  # no process has made the folder yet
        for inbox in inboxes:
            if inbox != except_for:
                self.send(inbox, message)

    def _sending_socket(self) -> socket.socket:
        with self._mutex:
            if self._sender is None:
                self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._sender.setblocking(False)
            return self._sender

    def remove(self, inbox: str) -> None:
        """Remove a socket."""
        try:
            os.unlink(os.path.join(self._path, inbox))
        except OSError:
            pass  # another process was quicker, or the folder is gone

    def close(self) -> None:
        """Close the sending socket and the descriptor of the folder."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


class Inbox:
    """The socket at which a client receives the pushes for its waiters and observers."""

    _receiver: socket.socket | None = None

    def __init__(self, folder: InboxFolder, identity: str, push: bool) -> None:
        self._folder = folder
        self._receiver = self._bind(identity) if push and _possible() else None
        self.silent = self._receiver is None
        self.id = SILENT + identity if self.silent else identity
        self._loop: AbstractEventLoop | None = None
        self._deliver: Callable[[list[str]], None] | None = None

    def _bind(self, identity: str) -> socket.socket | None:
        receiver = None
        try:
            receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            mode = self._folder.prepare()
            receiver.setblocking(False)
            receiver.bind(self._folder.address(identity))
            os.chmod(self._folder.address(identity), mode)
        except OSError:  # a read-only folder, a file system without sockets, no descriptor left
            if receiver is not None:
                receiver.close()
            return None  # no push here
        _open.add(self)
        return receiver

    def receive(self, timeout: float) -> list[str]:
        """Wait for messages and return them; nothing when time is up."""
        if self._receiver is None:
            time.sleep(timeout)
            return []
        try:
            wait_for(self._receiver.fileno(), READ, max(0.001, timeout))
        except (OSError, ValueError):
            return []  # closed meanwhile
        return self._drain()

    def _drain(self) -> list[str]:
        """Return the messages that have come, without waiting."""
        messages: list[str] = []
        try:
            while self._receiver is not None and len(messages) < 1000:
                messages.append(self._receiver.recv(MESSAGE_MAX).decode("utf-8", "replace"))
        except (OSError, ValueError):
            pass  # no more messages, or closed meanwhile
        return [message for message in messages if message]

    def attach(self, deliver: Callable[[list[str]], None]) -> None:
        """Have the running event loop itself deliver messages: a thread would be one more hop."""
        import asyncio

        self._loop, self._deliver = asyncio.get_running_loop(), deliver
        if self._receiver is not None:
            self._loop.add_reader(self._receiver, self._readable)

    def _readable(self) -> None:
        if self._deliver is not None:
            self._deliver(self._drain())

    def detach(self) -> None:
        """Stop the delivery by the event loop. Call this in its own thread."""
        if self._loop is not None and self._receiver is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._receiver)
        self._loop = self._deliver = None

    def heal(self) -> bool:
        """Make a new socket if something has removed its name; return whether it was needed."""
        if self.silent or self._folder.send(self.id, b"") is not Delivery.DEAD:
            return False
        deliver = self._deliver
        self.detach()
        self.drop()
        self._receiver = self._bind(self.id)
        if deliver is not None:
            self.attach(deliver)
        return True

    def wake(self) -> None:
        """End a ``receive`` that is under way."""
        self._folder.send(self.id, b"")

    def close(self) -> None:
        """Remove the socket."""
        if self._receiver is not None:
            self._folder.remove(self.id)
        self.drop()

    def drop(self) -> None:
        """Close our end and leave the socket's name alone."""
        if self._receiver is not None:
            self._receiver.close()
            self._receiver = None

    def __del__(self) -> None:
        self.close()


def _possible() -> bool:
    return hasattr(socket, "AF_UNIX") and os.name == "posix"


_open: weakref.WeakSet[Inbox] = weakref.WeakSet()


def _in_child() -> None:
    """Close the parent's sockets in a forked child, or the parent's death goes unnoticed."""
    for inbox in list(_open):
        inbox.drop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
