"""The runner of checks: one in one flavor, or all of them with a report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Literal, NamedTuple, TypeAlias

from ... import engines
from ...engine import Engine, read_options
from ...engines.url import parse
from ...errors import UsageError
from ...worlds import clock
from ...worlds.threads import drive
from .check import FLAVORS, Check, Flavor, NotApplicable
from .context import TIMEOUT_S, CheckContext

LIMIT = 5  # how long one check may take, in timeouts

_PROMISES = (
    "exclusion",
    "fences",
    "loss",
    "reentry",
    "waiting",
    "cancelling",
    "silence",
    "names",
    "usage",
    "looking",
    "closing",
    "contract",
    "queueing",
    "sharing",
    "listing",
    "remembering",
    "lingering",
    "portability",
    "several",
)

Target: TypeAlias = str | tuple[str, Mapping[str, object]]
"""The URL of a store, alone or with options as for ``connect``."""

Outcome: TypeAlias = Literal["passed", "failed", "not applicable"]


class Result(NamedTuple):
    """The result of one check in one flavor."""

    check: Check
    flavor: Flavor
    outcome: Outcome
    seconds: float
    why: str = ""
    error: BaseException | None = None

    def __str__(self) -> str:
        width = max(map(len, _by_name()))
        what = f"{self.check.name:{width}}  {self.flavor:7}  {self.outcome:14}"
        return f"{what}  {self.seconds:6.2f} s  {self.why}".rstrip()


class Report(NamedTuple):
    """The results of all checks."""

    results: tuple[Result, ...]

    @property
    def failed(self) -> list[Result]:
        return [result for result in self.results if result.outcome == "failed"]

    @property
    def ok(self) -> bool:
        """Whether at least one check ran, and none failed."""
        return bool(self.results) and not self.failed

    @property
    def summary(self) -> str:
        kinds: tuple[Outcome, ...] = ("passed", "failed", "not applicable")
        return ", ".join(f"{sum(r.outcome == k for r in self.results)} {k}" for k in kinds)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.results), self.summary])


@cache
def _by_name() -> dict[str, Check]:
    found: dict[str, Check] = {}
    for module in _PROMISES:
        values = vars(import_module(f"{__package__}.promises.{module}")).values()
        found.update({value.name: value for value in values if isinstance(value, Check)})
    return found


def checks() -> list[Check]:
    """Return all checks, in the order in which they are best read."""
    return list(_by_name().values())


def run(
    make_url: Callable[[], Target],
    flavor: Flavor,
    check: Check | str,
    *,
    engine: type[Engine] | None = None,
    timeout: float = TIMEOUT_S,
) -> None:
    """Run one check on the store that ``make_url`` names.

    Return if the promise is kept, raise the error that broke it, raise NotApplicable if the engine
    does not promise it. ``engine`` is the class to use if its scheme is not registered; ``timeout``
    is how many seconds to wait for something that must happen.
    """
    if flavor not in FLAVORS:
        raise UsageError(f"a flavor is one of {', '.join(FLAVORS)}, not {flavor!r}")
    chosen = _find(check) if isinstance(check, str) else check
    work = _conduct(make_url(), flavor, chosen, engine, timeout)
    if flavor == "asyncio":
        asyncio.run(work)
    else:
        drive(work)


def _find(name: str) -> Check:
    if name not in _by_name():
        raise UsageError(f"there is no check {name!r}; conformance.checks() lists them")
    return _by_name()[name]


async def _conduct(
    target: Target, flavor: Flavor, check: Check, engine: type[Engine] | None, timeout: float
) -> None:
    none: Mapping[str, object] = {}
    url, options = (target, none) if isinstance(target, str) else target
    if engine is None:
        engine, address = engines.resolve(url, options)
    else:
        address = parse(url, options)
        address = address._replace(options=read_options(engine, address.options))
    context = CheckContext(flavor, engine, address, timeout)
    try:
        if why := await context.why_not(check):
            raise NotApplicable(why)
        await context.start(check.body, context).result(LIMIT * timeout)
    finally:
        troubles = await context.close()
    if troubles:
        raise troubles[0]


def run_all(
    make_url: Callable[[], Target],
    *,
    flavors: Iterable[Flavor] = FLAVORS,
    only: Iterable[Check | str] | None = None,
    engine: type[Engine] | None = None,
    timeout: float = TIMEOUT_S,
    tell: Callable[[Result], object] | None = None,
) -> Report:
    """Run all checks, or only some, and return a report; ``tell`` is called with each result."""
    chosen = checks() if only is None else [_find(str(check)) for check in only]
    results: list[Result] = []
    for flavor in flavors:
        for check in chosen:
            judged = partial(run, make_url, flavor, check, engine=engine, timeout=timeout)
            results.append(_judge(judged, flavor, check))
            if tell is not None:
                tell(results[-1])
    return Report(tuple(results))


def _judge(judged: Callable[[], None], flavor: Flavor, check: Check) -> Result:
    began = clock.now()
    try:
        judged()
    except NotApplicable as error:
        return Result(check, flavor, "not applicable", clock.now() - began, str(error))
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return Result(check, flavor, "failed", clock.now() - began, why, error)
    return Result(check, flavor, "passed", clock.now() - began)
