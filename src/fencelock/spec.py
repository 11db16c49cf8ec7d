"""What a caller may ask of a lock, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .checks import (
    check_flag,
    check_key,
    check_max_hold,
    check_meta,
    check_name,
    check_safety,
    check_timeout,
    check_ttl,
)
from .errors import LeaseLost, UsageError
from .model import Safety, Scalar

DEFAULT_TTL_S = 30.0


class Spec(NamedTuple):
    """The description that a Lock is: checked values, no state."""

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


def make_spec(
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
) -> Spec:
    """Check every option; the first that is wrong is named together with what to do."""
    if on_lost is not None and not callable(on_lost):
        raise UsageError(f"on_lost must be a function that takes the LeaseLost, not {on_lost!r}")
    return Spec(
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
    )


def check_busy(busy: object) -> None:
    """See that a decorated function knows what to do when the lock is not had."""
    if busy not in ("raise", "skip"):
        raise UsageError(f'busy must be "raise" or "skip", not {busy!r}')


class Template:
    """A lock name with fields filled from a function's arguments: ``payment:{payment_id}``."""

    def __init__(self, text: str, function: Callable[..., Any], *, asynchronous: bool) -> None:
        import inspect  # 8 ms, and only where functions are decorated

        self._text = _template_text(text)
        _refuse_kind(function, asynchronous)
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters
        self.wants_lease = "lease" in parameters
        fields = _fields(text)
        for field in fields:
            root = field.partition(".")[0].partition("[")[0]
            if root not in parameters or root == "lease":
                known = ", ".join(name for name in parameters if name != "lease") or "none"
                raise UsageError(
                    f"the lock name {text!r} asks for {root or 'a numbered field'!r}, which is no "
                    f"parameter of {_name_of(function)}(); its parameters: {known}"
                )
        if not fields:
            check_name(text)

    def name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The name for one call. Missing arguments are the function's own TypeError."""
        given = {**kwargs, "lease": None} if self.wants_lease else kwargs
        bound = self._signature.bind(*args, **given)
        bound.apply_defaults()
        return check_name(self._text.format_map(bound.arguments))


def _template_text(text: object) -> str:
    if not isinstance(text, str):
        raise UsageError(f'locked takes a name: write @client.locked("name"), not {text!r:.80}')
    return text


def _refuse_kind(function: Callable[..., Any], asynchronous: bool) -> None:
    """Refuse a function whose body would run outside the lock."""
    import inspect

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
        kind, client = "an async", "fencelock.aio.connect"
    elif asynchronous and not is_async:
        kind, client = "a plain", "fencelock.connect"
    else:
        return
    raise UsageError(
        f"{_name_of(function)}() is {kind} function: decorate it with {client}(…).locked"
    )


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
