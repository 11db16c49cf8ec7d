"""A permit that a signal handler's exception breaks off is over, whoever keeps its traceback."""

from __future__ import annotations

import sys

from fencelock.engines.postgresql.wire.permits import Permit, Permits
from tests.engines.signal_injection import InjectedSignal, SignalInjection


def take_a_permit(permits: Permits) -> None:
    permit = Permit(sys._getframe())
    try:
        assert permits.try_take(permit)
    finally:
        permits.give(permit)


def test_a_permit_broken_off_at_any_moment_is_over_though_its_traceback_is_kept() -> None:
    with SignalInjection(("wire/permits.py",)) as counted:
        take_a_permit(Permits())
    assert counted.moments > 5
    kept: list[InjectedSignal] = []
    for moment in range(1, counted.moments + 1):
        permits = Permits()
        try:
            with SignalInjection(("wire/permits.py",), moment):
                take_a_permit(permits)
        except InjectedSignal as error:
            kept.append(error)  # and with it the frames, which have the permit
        assert permits.try_take(Permit()), f"moment {moment} of {counted.moments}"
    assert len(kept) > 5
