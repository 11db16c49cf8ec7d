"""The client of Spanner: stubs of google-cloud-spanner over one gRPC channel, in both flavors.

Not its ``Database`` and ``run_in_transaction``: those repeat what was aborted for as long as they
like, keep sessions alive and export metrics by threads of their own. A stub makes one request,
once, with a deadline. What could not be sent is sent a moment later, and what changes nothing and
was not answered is sent once more. The package blocks while it is loaded and finds credentials: a
thread does that, once, at the first request. Another one begins all requests, so that no exception
of a signal handler reaches into gRPC, which has a thread that completes them: a caller waits for it
under threads, and is woken by it in asyncio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....errors import Unavailable
from ....wires.caller_thread import CallerThread
from ....wires.daemon_thread import start_daemon
from ....wires.single_flight import SingleFlight
from ....world import World, sleep
from ..settings import Settings
from .errors import Disconnected, Unanswered, is_late, no_answer, told

if TYPE_CHECKING:
    from .stubs import Stubs

LOAD_S = 60.0  # to load the package on a busy machine, and to find credentials
RECONNECT_S = 0.6  # gRPC waits for at most half as long between two attempts to connect
AGAIN_S = 0.05
SILENT_S = 0.3  # without any answer, after which a connection may be dead
SPARE_S = 0.5  # gRPC ends a request by its deadline; this is for when it cannot


class _Request:
    """A request, and what came of it."""

    def __init__(self, send: Callable[[], Any]) -> None:
        self._send = send
        self._future: Any = None
        self.is_left = False  # nobody waits for it any more
        self.answers = list[Any]()  # one answer, or an exception

    def begin(self, wake: Callable[[object], None]) -> None:
        """Send it, unless nobody waits for it any more."""
        if self.is_left:
            return

        def ended(future: Any) -> None:
            self._end(future.result, wake)

        try:
            self._future = self._send()
            self._future.add_done_callback(ended)
        except Exception as error:
            self.answers.append(error)
            wake(None)

    def _end(self, result: Callable[[], Any], wake: Callable[[object], None]) -> None:
        try:
            self.answers.append(result())
        except BaseException as error:  # it may have been cancelled
            self.answers.append(error)
        wake(None)

    def cancel(self) -> None:
        if self._future is not None:
            self._future.cancel()


class Wire:
    """Make requests: return an answer, or raise an error of ours, Aborted or SessionMissing."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self._stubs: Stubs | None = None
        self._loading = SingleFlight(world)
        self._caller = CallerThread("fencelock-spanner-caller")
        self._closed = False
        self._answered_at = 0.0
        if world.flavor == "asyncio":
            from .wait_aio import wait
        else:
            from .wait_threads import wait
        self._wait = wait

    async def call(self, method: str, **request: Any) -> Any:
        """Make one request to the database."""
        while self._stubs is None and not self._closed:
            await self._loading.do("stubs", self._load)
        give_up, repeated = self._world.now() + RECONNECT_S, False
        while True:
            try:
                return await self._call(method, request)
            except Disconnected:
                # gRPC refuses what it could send while it waits before it connects again.
                if self._world.now() >= min(give_up, self._world.limit()):
                    raise
            except Unanswered:
                if repeated or self._world.now() >= self._world.limit():
                    raise
                repeated = True
            await sleep(self._world, AGAIN_S)

    async def _call(self, method: str, fields: dict[str, Any]) -> Any:
        stubs, world, database = self._stubs, self._world, self._settings.database
        left = min(self._settings.request_timeout, world.limit() - world.now())
        if self._closed or left <= 0 or stubs is None:
            why = "the client is closed" if self._closed else "no time is left"
            raise Unavailable(f"{database} was not asked: {why}")
        request = _Request(lambda: stubs.begin(method, fields, left))
        began = world.now()

        def begin(wake: Callable[[object], None]) -> None:
            self._caller.submit(lambda: request.begin(wake))

        try:
            await self._wait(begin, left + SPARE_S)
        except RuntimeError as error:
            raise Unavailable(f"{database} was not asked: {error}") from error
        finally:
            if not request.answers:
                request.is_left = True
                self._caller.submit(request.cancel)
                self._suspect(stubs, began)
        if not request.answers:
            raise no_answer(method, database, f"within {left:.1f} s")
        answer = request.answers[0]
        if isinstance(answer, ValueError):  # it was closed just now
            raise Unavailable(f"{database} was not asked: {answer}") from answer
        try:
            if isinstance(answer, BaseException):
                raise answer
            answer = stubs.read(method, answer)
        except Exception as error:
            if is_late(error):
                self._suspect(stubs, began)
            raise told(error, method, self._settings) from error
        self._answered_at = world.now()
        return answer

    def _suspect(self, stubs: Stubs, began: float) -> None:
        """Connect anew where nothing was answered for a while: gRPC would wait for far longer."""
        if self._answered_at < began and self._world.now() - began >= SILENT_S and not self._closed:
            self._answered_at = self._world.now()  # once for all who wait
            self._caller.submit(stubs.connect)

    async def _load(self) -> None:
        outcome = list[Any]()
        left = min(LOAD_S, self._world.limit() - self._world.now())

        def begin(wake: Callable[[object], None]) -> None:
            start_daemon(lambda: self._make(outcome, wake), "fencelock-spanner")

        try:
            done = left > 0 and await self._wait(begin, left)
        except RuntimeError as error:
            raise Unavailable(f"there is no thread for the client: {error}") from error
        if not done:
            raise Unavailable(
                f"the client of Spanner was not ready within {max(left, 0):.1f} s: it is loaded, "
                "and looks for credentials; nothing was done"
            )
        if isinstance(outcome[0], Exception):
            raise told(outcome[0], "Load", self._settings) from outcome[0]
        self._stubs = outcome[0]
        if self._closed:
            outcome[0].close()

    def _make(self, outcome: list[Any], wake: Callable[[object], None]) -> None:
        try:
            from .stubs import Stubs  # 0.5 s, and only who connects needs it

            outcome.append(Stubs(self._settings))
        except Exception as error:
            outcome.append(error)
        wake(None)

    def close(self) -> None:
        self._closed = True
        if self._stubs is not None:
            self._caller.end(self._stubs.close)
