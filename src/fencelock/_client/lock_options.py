"""The options of a lock, and the name template of a decorated function; checked before use."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, cast

from ..errors import LeaseLost, UsageError
from ..model import READERS_MAX, Meta, Safety, Scalar, Share
from ..observe import GROUP_MAX
from .validation import (
    check_flag,
    check_group,
    check_key,
    check_limit,
    check_linger,
    check_lingering,
    check_max_hold,
    check_meta,
    check_name,
    check_safety,
    check_timeout,
    check_ttl,
)

if TYPE_CHECKING:
    from inspect import Parameter, Signature

DEFAULT_TTL_S = 30.0


class LockSpec(NamedTuple):
    """The options of a Lock: checked values, no state."""

    name: str
    ttl: float
    timeout: float | None
    renew: bool
    max_hold: float | None
    on_lost: Callable[[LeaseLost], object] | None
    reentrant: bool
    safety: Safety | None
    meta: dict[str, Scalar]
    key: int | None
    share: Share | None = None
    linger: Linger | None = None
    group: str | None = None
    """The group that the caller gave, under which telemetry counts many names."""


class Linger(NamedTuple):
    """For how many seconds a lock that has ended is not given to others; few locks use it."""

    min_hold: float
    """From its grant on, even if it is released before."""
    delay: float
    """After its holder was lost."""


def make_lock_spec(
    name: object,
    ttl: object,
    timeout: object,
    renew: object,
    max_hold: object,
    on_lost: object,
    reentrant: object,
    safety: object,
    meta: object,
    key: object = None,
    min_hold: object = None,
    delay: object = None,
    group: object = None,
) -> LockSpec:
    """Check every option; the first that is wrong is named together with what to do."""
    if on_lost is not None and not callable(on_lost):
        raise UsageError(f"on_lost must be a function that takes the LeaseLost, not {on_lost!r}")
    linger = None
    if min_hold is not None or delay is not None:
        linger = Linger(check_linger(min_hold, "min_hold"), check_linger(delay, "delay"))
        check_lingering(linger.min_hold, max_hold)
    return LockSpec(
        name=check_name(name),
        ttl=check_ttl(ttl),
        timeout=check_timeout(timeout),
        renew=check_flag(renew, "renew"),
        max_hold=check_max_hold(max_hold),
        on_lost=on_lost,
        reentrant=check_flag(reentrant, "reentrant"),
        safety=check_safety(safety),
        meta={} if meta is None else check_meta(meta),
        key=None if key is None else check_key(key),
        linger=linger,
        group=None if group is None else check_group(group),
    )


def make_shared_spec(name: object, share: Share, options: Mapping[str, object]) -> LockSpec:
    """Check the options of a lock that several may hold."""
    known = HoldOptions.__annotations__
    for option in options:
        if option not in known:
            raise UsageError(
                f"a {share.kind} has no option {option!r}; it knows: {', '.join(sorted(known))}"
            )
    spec = make_lock_spec(
        name,
        options.get("ttl", DEFAULT_TTL_S),
        options.get("timeout"),
        options.get("renew", True),
        options.get("max_hold"),
        options.get("on_lost"),
        False,
        options.get("safety"),
        options.get("meta"),
        group=options.get("group"),
    )
    return spec._replace(share=share)


def semaphore_share(limit: object) -> Share:
    """Return the share of one slot of a semaphore."""
    return Share("semaphore", 1, check_limit(limit))


READ, WRITE = Share("rwlock", 1, READERS_MAX), Share("rwlock", READERS_MAX, READERS_MAX)


def check_busy(busy: object) -> None:
    """Check what a decorated function does when the lock cannot be acquired."""
    if busy not in ("raise", "skip"):
        raise UsageError(f'busy must be "raise" or "skip", not {busy!r}')


class HoldOptions(TypedDict, total=False):
    """The options of everything that can be held, for type checkers; ``lock`` explains them."""

    ttl: float
    timeout: float | None
    renew: bool
    max_hold: float | None
    on_lost: Callable[[LeaseLost], object] | None
    safety: Safety | None
    meta: Meta | None
    group: str | None


class LockOptions(HoldOptions, total=False):
    """The options that ``lock`` and ``locked`` share, for type checkers."""

    reentrant: bool
    key: int | None
    min_hold: float | None
    delay: float | None


class Template:
    """A lock name with fields filled from a function's arguments, ``payment:{payment_id}``, and the
    function.

    Its parameter ``lease`` is ours to fill: callers cannot pass it, and frameworks that read
    signatures do not see it.
    """

    def __init__(
        self,
        text: str,
        function: Callable[..., Any],
        *,
        asynchronous: bool,
        decorator: str = "locked",
    ) -> None:
        self._text = _template_text(text)
        self._decorator = decorator
        _refuse_kind(function, asynchronous, decorator)
        self._function = function
        self._asynchronous = asynchronous
        inner = _signature(function)
        self._parameters = list(inner.parameters.values())
        others = [parameter for parameter in self._parameters if parameter.name != "lease"]
        self._wants_lease = len(others) < len(self._parameters)
        self._signature = inner.replace(parameters=others)
        if self._wants_lease:
            self._index, self._named = _index_of_lease(self._parameters, function)
        fields = _fields(text)
        for field in fields:
            root = field.partition(".")[0].partition("[")[0]
            if root not in self._signature.parameters:
                known = ", ".join(self._signature.parameters) or "none"
                raise UsageError(
                    f"the lock name {text!r} asks for {root or 'a numbered field'!r}, which is no "
                    f"parameter of {_name_of(function)}(); its parameters: {known}"
                )
        if not fields:
            check_name(text)

    def wrap(self, call: Callable[..., Any]) -> None:
        """Make the decorated function look like the one it calls, but for the parameter lease."""
        update_wrapper(call, self._function)
        if self._wants_lease:
            cast("Any", call).__signature__ = self._signature

    def named(self, spec: LockSpec, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> LockSpec:
        """Return the lock for one call. Its group is the template, unless another is given."""
        name = self.name(args, kwargs)
        return spec._replace(name=name, group=spec.group or self._text[:GROUP_MAX])

    def name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the name for one call. Missing arguments raise the function's own TypeError."""
        if self._wants_lease and "lease" in kwargs:
            raise UsageError(
                f"{_name_of(self._function)}() is given the lease of the lock that each call takes:"
                " call it without lease. Nothing was locked or called"
            )
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return check_name(self._text.format_map(bound.arguments))

    def call(self, lease: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the function with its caller's arguments, and the lease if it takes one."""
        if not self._wants_lease:
            return self._function(*args, **kwargs)
        if self._named and len(args) <= self._index:
            return self._function(*args, **{**kwargs, "lease": lease})
        left_out = [parameter.default for parameter in self._parameters[len(args) : self._index]]
        before, after = args[: self._index], args[self._index :]
        return self._function(*before, *left_out, lease, *after, **kwargs)

    def awaitable(self, result: Any) -> Awaitable[Any]:
        """Return the result of a call of the function, which must be awaited under the lock."""
        from inspect import isawaitable

        if isawaitable(result):
            return result
        self.finished(result)
        raise UsageError(
            f"{_name_of(self._function)}() is a plain function: it returned "
            f"{type(result).__qualname__}, which cannot be awaited. It has run, under the lock; "
            f"decorate it with fencelock.connect(…).{self._decorator}"
        )

    def finished(self, value: Any) -> Any:
        """Return the value, unless it is work that would be done after the lock is released."""
        kind = None if value is None else _unfinished(value)
        if kind is None:
            return value
        if kind == "generator" or self._asynchronous:
            advice = "take the lock inside it"
        else:
            advice = (
                "decorate the async function itself, with "
                f"fencelock.aio.connect(…).{self._decorator}"
            )
        raise UsageError(
            f"{_name_of(self._function)}() returned a {type(value).__name__}, which would run "
            f"after the lock is released; {_stop(value)}. Instead, {advice}"
        )


def _template_text(text: object) -> str:
    if not isinstance(text, str):
        raise UsageError(f'locked takes a name: write @client.locked("name"), not {text!r:.80}')
    return text


def _signature(function: Callable[..., Any]) -> Signature:
    import inspect  # 8 ms, and only where functions are decorated

    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"the parameters of {_name_of(function)} cannot be read: {error}. "
            "Call it in a function of yours, and decorate that"
        ) from None


def _index_of_lease(
    parameters: Sequence[Parameter], function: Callable[..., Any]
) -> tuple[int, bool]:
    """How many positional arguments come before the lease, and whether it may be passed by name."""
    index, lease = next((n, p) for n, p in enumerate(parameters) if p.name == "lease")
    if lease.kind in (lease.VAR_POSITIONAL, lease.VAR_KEYWORD):
        raise UsageError(
            f"{_name_of(function)}() has the parameter {lease}, which takes more than one value: "
            "name it otherwise, or write lease"
        )
    if lease.kind is lease.KEYWORD_ONLY:
        return sys.maxsize, True
    return index, lease.kind is not lease.POSITIONAL_ONLY


def _refuse_kind(function: Callable[..., Any], asynchronous: bool, decorator: str) -> None:
    """Refuse a function whose body would run outside the lock, as far as that can be seen.

    A plain function may call an async one and return its coroutine, or run it: only what it returns
    tells. See Template.finished.
    """
    import inspect

    for kind in (staticmethod, classmethod):
        if isinstance(function, kind):
            raise UsageError(f"write @{kind.__name__} above @client.{decorator}(…), not below it")
    call = getattr(function, "__call__", None)  # noqa: B004  # an object whose call is async
    if any(
        inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in (function, call)
    ):
        raise UsageError(
            f"{_name_of(function)}() is a generator, which would run after the lock is released. "
            "Take the lock inside it"
        )
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    if is_async and not asynchronous:
        flavor, client = "an async", "fencelock.aio.connect"
    elif asynchronous and not is_async and _is_plain(function):
        flavor, client = "a plain", "fencelock.connect"
    else:
        return
    raise UsageError(
        f"{_name_of(function)}() is {flavor} function: decorate it with {client}(…).{decorator}"
    )


def _is_plain(function: Any) -> bool:
    """Whether a function is an ordinary ``def`` that wraps no other."""
    from inspect import isfunction, ismethod

    function = function.__func__ if ismethod(function) else function
    return isfunction(function) and not (
        hasattr(function, "__wrapped__") or function.__name__ == "<lambda>"
    )


def _unfinished(value: object) -> Literal["generator", "awaitable"] | None:
    """Return which kind of unfinished work a value is, or None if it is none."""
    import inspect

    if type(value).__module__ == "contextlib":
        value = getattr(value, "gen", value)  # of a function under @contextmanager
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "generator"
    return "awaitable" if inspect.isawaitable(value) else None


def _stop(value: Any) -> str:
    """Close or cancel the work, and say which."""
    import inspect

    if inspect.isgenerator(value) or inspect.iscoroutine(value):
        value.close()
        return "it was closed before it could"
    if inspect.isawaitable(value) and callable(getattr(value, "cancel", None)):
        cast("Any", value).cancel()  # a task
        return "it was cancelled"
    return "it was not begun"


def _fields(text: str) -> list[str]:
    """The fields of a template, those inside format specs included."""
    from string import Formatter

    try:
        parts = list(Formatter().parse(text))
        return [
            inner
            for _, field, spec, _ in parts
            if field is not None
            for inner in (field, *_fields(spec or ""))
        ]
    except ValueError as error:
        raise UsageError(f"the lock name {text!r} cannot be read as a template: {error}") from None


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)
