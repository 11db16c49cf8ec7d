"""The wire for threads: blocking gRPC calls in the thread that asks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from .channel import OPTIONS, Tls, credentials, load_grpc
from .forking import gate
from .link import Metadata, Refused


class ThreadsWire:
    """Channels to the members of a cluster, each made when it is first needed."""

    def __init__(self, members: Sequence[str], tls: Tls | None) -> None:
        gate.check()
        self._grpc = load_grpc()
        self._members = members
        self._tls = None if tls is None else credentials(tls)
        self._mutex = threading.Lock()
        self._channels: dict[tuple[int, int], Any] = {}  # of grpc.Channel, whose types are open
        self._methods: dict[tuple[int, int, str], Any] = {}
        self._closed = False

    async def call(
        self, member: int, lane: int, method: str, request: bytes, within: float, about: Metadata
    ) -> bytes:
        place = (member, lane, method)
        send = self._methods.get(place) or self._method(place)
        visit = object()
        try:
            gate.inside.add(visit)  # as enter() does: without a fork, that is all
            if gate.fork is not None:
                gate.enter(visit)
            answer: bytes = send(request, within, about)
        except self._grpc.RpcError as error:
            raise Refused(error.code().name, error.details() or "") from None
        except ValueError as error:  # "Cannot invoke RPC on closed channel!"
            raise Refused("CLOSED", str(error)) from None
        finally:
            gate.inside.discard(visit)
            if gate.fork is not None:
                gate.leave(visit)
        return answer

    def stream(
        self,
        member: int,
        method: str,
        about: Metadata,
        hear: Callable[[bytes], None],
        end: Callable[[], None],
    ) -> ThreadsStream:
        open_stream = self._channel(member, 0).stream_stream(method)
        return ThreadsStream(open_stream, about, hear, end, self._grpc.RpcError)

    def _method(self, place: tuple[int, int, str]) -> Any:
        member, lane, method = place
        # The method itself: calling the object that has it takes a way around.
        found = self._channel(member, lane).unary_unary(method).__call__
        with self._mutex:
            self._methods[place] = found
        return found

    def _channel(self, member: int, lane: int) -> Any:
        with self._mutex:
            if self._closed:
                raise Refused("CLOSED", "the client is closed")
            found = self._channels.get((member, lane))
            if found is None:
                found = self._channels[member, lane] = self._connect(self._members[member])
        return found

    def _connect(self, target: str) -> Any:
        if self._tls is None:
            return self._grpc.insecure_channel(target, OPTIONS)
        return self._grpc.secure_channel(target, self._tls, OPTIONS)

    def leave(self, member: int, lane: int) -> None:
        with self._mutex:
            self._channels.pop((member, lane), None)  # closed when the last call on it has ended
            for place in [place for place in self._methods if place[:2] == (member, lane)]:
                del self._methods[place]

    async def close(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Close all channels; calls that are under way end at once."""
        with self._mutex:
            self._closed = True
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()


class ThreadsStream:
    """A stream that a thread of its own reads."""

    def __init__(
        self,
        open_stream: Callable[..., Any],
        about: Metadata,
        hear: Callable[[bytes], None],
        end: Callable[[], None],
        failure: type[Exception],
    ) -> None:
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._open = partial(open_stream, iter(self._requests.get, None), metadata=about)
        self._call: Any = None
        self._closed = False
        self._mutex = threading.Lock()
        self._hear = hear
        self._end = end
        self._failure = failure
        threading.Thread(target=self._read, name="fencelock-etcd-watch", daemon=True).start()

    def send(self, message: bytes) -> None:
        self._requests.put(message)

    def close(self) -> None:
        self._requests.put(None)
        with self._mutex:
            self._closed = True
            if self._call is not None:
                self._call.cancel()

    def _read(self) -> None:
        try:
            for message in self._begin():
                self._hear(message)
        except (self._failure, ValueError):
            pass  # however it ended, or was too late to begin: who watched looks for itself
        finally:
            self._requests.put(None)
            self._end()

    def _begin(self) -> Any:
        """Open it here: Ctrl-C in the midst of that would leave a channel that never closes."""
        call = self._open()
        with self._mutex:
            self._call = call
            if self._closed:
                call.cancel()
        return call
