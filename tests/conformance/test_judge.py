"""The judge can say no: what has a defect is rejected, by the check that is about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

import fencelock._client.lock_options
import fencelock.sync
from fencelock._client import acquire, demands, loss_notify, policy
from fencelock._client.client import Core
from fencelock._client.lease_lifecycle import LeaseLifecycle
from fencelock.engine import Engine
from fencelock.engines.memory import MemoryEngine
from fencelock.errors import EngineError, Unavailable
from fencelock.model import Busy, Grant, Request
from fencelock.recipes import several as recipe
from fencelock.testing import conformance
from fencelock.testing.conformance import Broken, Flavor
from fencelock.world import sleep
from tests.conformance.broken import (
    holding,
    lingering,
    listing,
    ordering,
    portability,
    several,
    sharing,
    showing,
)

TIMEOUT_S = 0.7  # a defect is waited for in vain: do not wait long

_number = itertools.count()

# For each defect of an engine the checks that must find it. Others may find it too.
# fmt: off
DEFECTS: dict[type[Engine], str] = {
    holding.GrantsWhatIsHeld: """
        exclusion_holds_between_contenders try_acquire_gives_none_when_held a_held_lock_is_refused
        a_block_is_never_entered_without_the_lock a_plain_lock_is_not_reentered
        only_the_holder_reenters a_waiter_gets_a_released_lock""",
    holding.GrantsTheFirstRefusal: "exclusion_holds_between_contenders",
    holding.StoreOfTheClient: """
        exclusion_holds_between_contenders acquire_raises_when_time_is_up
        a_waiter_gets_the_lock_of_a_closed_client withdraw_passes_on_what_was_handed_over
        one_client_renews_many_leases""",
    holding.ReleasesForAnybody: "release_needs_the_owner releasing_a_lost_lease_harms_nobody",
    holding.ReleasesNothing: """
        leaving_a_block_frees_the_lock release_says_whether_it_freed a_client_is_closed_by_its_block
        a_lease_may_be_released_elsewhere closing_a_client_frees_what_it_holds
        reentry_gives_the_same_lease blocks_of_one_lock_nest a_cancelled_release_frees_the_lock
        an_unanswered_release_is_unknown_and_done""",
    holding.ReleasesThatSayYes: """
        release_after_the_end_says_no release_needs_the_owner an_unrenewed_lease_ends_and_says_so
        a_lock_can_be_used_again_after_a_loss""",
    holding.ReleasesOnce: "acquire_is_idempotent_for_its_owner",
    holding.WithdrawsForAnybody: "withdraw_needs_the_owner withdraw_leaves_the_queue",
    holding.WithdrawsNothing: """
        withdraw_leaves_the_queue withdraw_gives_back_a_grant acquire_raises_when_time_is_up
        a_waiter_that_timed_out_is_gone an_unanswered_try_is_unknown_and_undone
        an_unanswered_request_for_several_is_taken_back
        a_waiter_of_a_silent_engine_times_out a_cancellation_does_not_wait_for_a_silent_engine""",
    holding.WithdrawsNothingSlowly: "a_cancelled_acquire_leaves_no_orphan",
    holding.WithdrawsTheGrantOnly: """
        withdraw_leaves_the_queue a_cancelled_waiter_is_gone
        a_time_limit_around_acquire_leaves_no_orphan""",
    holding.WithdrawsThePlaceOnly: "withdraw_gives_back_a_grant",
    holding.RenewsByTakingAgain: "renewal_never_reacquires a_revoked_holder_is_told",
    holding.RenewsForAnybody: "renew_needs_the_owner",
    holding.RenewsInItsOwnOrder: "renewals_are_answered_in_order",
    holding.RenewsTheFirstOnly: "renewals_are_answered_in_order",
    holding.RenewsInWordsOnly: """
        renewal_keeps_a_lease_past_its_ttl renewing_by_hand_extends_the_lease
        renewal_keeps_the_fence_and_adds_time""",
    holding.RenewsWithANewFence: "a_fence_stays_while_its_lease_lasts",
    ordering.FenceStandsStill: """
        fences_grow_within_a_slot
        fences_grow_across_releases fences_grow_across_expiry fences_grow_along_the_queue
        fences_grow_across_revocation many_waiters_each_get_their_turn""",
    ordering.FenceOfTheClient: "fences_grow_across_clients",
    ordering.FenceThatJumps: "acquire_is_idempotent_for_its_owner",
    ordering.FenceTooLarge: "fences_fit_where_numbers_go",
    ordering.LastComeFirstServed: "waiters_are_served_in_order",
    ordering.LetsOvertake: "a_newcomer_does_not_overtake",
    ordering.SendsToTheEnd: "a_waiter_keeps_its_place",
    ordering.QueuesEverybody: "who_looks_without_queueing_takes_no_place",
    ordering.NeverPushes: "a_release_wakes_a_waiter a_watch_is_told_of_a_release",
    ordering.WaitsForTheDead: "a_waiter_that_does_not_answer_is_passed_over",
    ordering.NeverExpires: """
        a_crashed_holder_frees_the_lock_within_its_ttl an_expired_lock_goes_to_its_waiter
        an_expired_holder_is_not_shown""",
    ordering.ExpiresEarly: "the_holder_knows_before_the_engine_does",
    ordering.CountsFromTheAnswer: "a_grant_states_what_was_asked max_hold_ends_a_renewed_lease",
    showing.OneNameForAll: "different_names_do_not_disturb_each_other any_valid_name_can_be_locked",
    showing.ForgetsCase: "names_are_told_apart",
    showing.CutsNames: "names_are_told_apart any_valid_name_can_be_locked",
    showing.ScansByPattern: "scan_lists_names_by_prefix",
    showing.ScansTheDead: "scan_shows_what_holders_shows",
    showing.ShowsTheOwner: "nobody_sees_the_owner",
    showing.ShowsNoWords: "holders_shows_who_holds meta_has_a_limit a_leader_is_shown_as_one",
    showing.ShowsShortWords: "meta_has_a_limit",
    showing.ShowsTheDead: "an_expired_holder_is_not_shown",
    showing.ShowsTheQueueBackwards: """
        waiters_are_shown_in_order who_waits_for_a_slot_is_shown_in_order
        readers_and_a_waiting_writer_are_shown""",
    showing.RevokesWithoutAWord: "a_revoked_holder_is_told",
    showing.RevokesNothing: "revoking_a_free_lock_says_so a_revoked_holder_is_told",
    showing.RevokesAndForgetsTheFence: "fences_grow_across_revocation",
    sharing.GrantsOneTooMany: "a_semaphore_has_as_many_holders_as_its_limit",
    sharing.KnowsOneSlot: "a_semaphore_has_as_many_holders_as_its_limit fences_grow_within_a_slot",
    sharing.TakesAnyLimit: "limits_that_differ_are_refused",
    sharing.WritesLikeAReader: """
        readers_share_and_a_writer_does_not a_share_is_released_by_its_owner_alone""",
    sharing.LetsThoseInWhoFit: "a_waiting_writer_is_not_overtaken",
    sharing.ServesTheLast: "a_semaphore_serves_waiters_in_order",
    sharing.KeepsTheSharesOfTheDead: "a_dead_holder_s_share_comes_back",
    sharing.TakesAUnitWithEachQuestion: "asked_again_a_holder_keeps_its_share",
    sharing.RenewsNoShares: "shares_are_renewed",
    sharing.DowngradesByReleasing: "a_writer_becomes_a_reader_without_a_gap",
    sharing.OneKindForAll: "kinds_have_nothing_in_common",
    sharing.ShowsLocksOnly: "shared_holders_and_waiters_are_shown",
    listing.ScansLocksOnly: "scan_lists_every_share",
    listing.ScansWithoutLimits: "scan_lists_every_share",
    listing.ShowsAllAsReaders: """
        readers_and_a_waiting_writer_are_shown each_kind_has_its_own_queue""",
    listing.ShowsWritersOnly: "readers_and_a_waiting_writer_are_shown",
    listing.ShowsTheQueueOfLocks: "each_kind_has_its_own_queue",
    listing.ShowsWhatWasGranted: "a_downgraded_writer_is_shown_reading",
    listing.ShowsDeadShares: "an_expired_share_is_not_shown",
    sharing.RevokesTheFirst: "all_shares_of_a_name_are_revoked",
    sharing.ReleasesAnyShare: "a_share_is_released_by_its_owner_alone",
    sharing.RemembersTheLast: "what_is_remembered_only_grows",
    sharing.ForgetsWithItsClient: "what_is_remembered_outlives_its_writer",
    sharing.ForgetsWithTheBriefest: "what_is_kept_briefly_does_not_shorten_the_rest",
    sharing.RemembersWithoutCase: "names_remember_their_own",
    sharing.AnnouncesToItself: "observers_are_told",
    several.TakesWhatIsFree: "several_locks_are_all_or_none nothing_is_granted_if_one_is_busy",
    several.TakesWhatIsHeld: "several_locks_are_all_or_none nothing_is_granted_if_one_is_busy",
    several.NamesTheLast: "nothing_is_granted_if_one_is_busy",
    several.ReleasesTheFirst: "several_locks_are_all_or_none",
    several.ReleasesTheFirstInDeed: """
        several_locks_are_all_or_none several_are_released_each_by_its_own_grant""",
    several.ReleasesAllInWords: "several_are_released_each_by_its_own_grant",
    several.ReleasesAllOfTheNames: "several_are_released_each_by_its_own_grant",
    lingering.KnowsItsOwnOnly: """
        a_lease_can_be_handed_over another_client_renews_and_releases_a_grant
        another_client_renews_and_releases_a_share""",
    lingering.EndsAtOnce: "a_shortest_hold_outlasts_its_release",
    lingering.KeepsForASecond: "a_lost_lock_is_kept_for_its_delay",
    portability.ReleasesItsOwnOnly: """
        another_client_renews_and_releases_a_grant another_client_renews_and_releases_a_share""",
    portability.KeepsTheFirstEnd: """
        a_grant_asked_for_again_lasts_a_whole_ttl a_share_asked_for_again_lasts_a_whole_ttl""",
    portability.GrantsToEachClient: """
        a_grant_asked_for_again_lasts_a_whole_ttl a_share_asked_for_again_lasts_a_whole_ttl""",
    portability.StandsAnewElsewhere: """
        a_waiter_may_ask_through_another_client
        a_waiter_for_a_share_may_ask_through_another_client""",
    portability.StandsOnlyOnce: """
        a_waiter_may_ask_through_another_client
        a_waiter_for_a_share_may_ask_through_another_client""",
    portability.WakesTheFirstClient: """
        a_waiter_may_ask_through_another_client
        a_waiter_for_a_share_may_ask_through_another_client""",
    portability.LeavesForGood: """
        leaving_a_queue_takes_nothing_from_another_client
        leaving_a_queue_takes_no_share_from_another_client""",
    portability.HandsOver: """
        who_has_left_a_queue_gets_nothing who_has_left_a_queue_gets_no_share""",
    holding.EndsWithItsFirstClient: "closing_one_client_leaves_the_others_alone",
    holding.ForgetsWhenAllHaveLeft: "a_grant_survives_while_nobody_is_connected",
    holding.PromisesTooMuch: "safety_is_promised_or_refused",
}
# fmt: on

PAIRS = [(engine, name) for engine, names in DEFECTS.items() for name in names.split()]


def judge(name: str, engine: type[Engine] = MemoryEngine, timeout: float = TIMEOUT_S) -> None:
    (check,) = (check for check in conformance.checks() if check.name == name)
    flavor: Flavor = "sync" if "sync" in check.flavors else "asyncio"
    url = f"memory://judge-{next(_number)}"
    conformance.run(lambda: url, flavor, check, engine=engine, timeout=timeout)


@pytest.mark.parametrize(
    ("engine", "name"), PAIRS, ids=[f"{engine.__name__}-{name}" for engine, name in PAIRS]
)
def test_a_broken_engine_is_rejected(engine: type[Engine], name: str) -> None:
    with pytest.raises((Broken, fencelock.FencelockError, ValueError)):
        judge(name, engine)


@pytest.mark.parametrize(
    "name", [check.name for check in conformance.checks() if "portable" in check.needs]
)
def test_within_one_process_the_specification_is_portable(name: str) -> None:
    judge(name, lingering.Portable, timeout=20.0)


async def _leave_quietly(core: LeaseLifecycle, tenure: Any, error: object) -> None:
    await core.release(tenure)


async def _leave_loudly(core: LeaseLifecycle, tenure: Any, error: object) -> None:
    await core.release(tenure)
    if tenure.loss is not None:
        raise tenure.loss


async def _call_twice(tenure: Any) -> None:
    tenure.on_lost(tenure.loss)
    tenure.on_lost(tenure.loss)


async def _be_ready(core: Core[Any]) -> None:
    pass


def _ignore(*_: object) -> None:
    pass


async def _give_up(world: object, engine: Engine, request: Request, limit: float) -> object:
    try:
        return await engine.acquire(request)
    except Unavailable as error:
        raise EngineError(str(error)) from error


_kept: list[object] = []


async def _keep_all(core: object, leases: object) -> bool:
    _kept.append(leases)
    return True


def _as_named(names: Any, spec: Callable[[str], Any]) -> list[Any]:
    return [spec(name) for name in names]


def _accept(value: Any, what: str = "") -> Any:
    return value


# Checks of what no engine can break, with a defect of the part that can.
DEFECTS_ABOVE: dict[str, tuple[Any, str, Callable[..., object]]] = {
    "leaving_a_lost_block_raises": (LeaseLifecycle, "leave", _leave_quietly),
    "an_error_of_the_body_is_not_hidden": (LeaseLifecycle, "leave", _leave_loudly),
    "on_lost_is_called_once": (loss_notify, "call_back", _call_twice),
    "wrong_calls_are_refused_unsent": (fencelock._client.lock_options, "check_ttl", _accept),
    "a_wrong_ttl_does_not_touch_a_lease": (fencelock.sync, "check_ttl", _accept),
    "a_closed_client_says_so": (Core, "ready", _be_ready),
    "a_reader_cannot_become_a_writer": (demands, "refuse_upgrade", _ignore),
    "several_locks_are_all_or_none": (recipe, "release_all", _keep_all),
    "the_order_of_names_does_not_deadlock": (recipe, "in_order", _as_named),
    "the_loss_of_one_is_the_loss_of_all": (LeaseLifecycle, "leave", _leave_quietly),
    "wrong_names_of_several_are_refused": (recipe, "in_order", _as_named),
    "a_waiter_survives_a_short_outage": (acquire, "_acquire", _give_up),
}


@pytest.mark.parametrize("name", DEFECTS_ABOVE)
def test_a_broken_core_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(name, several.OneByOne, timeout=5.0)
    where, what, defect = DEFECTS_ABOVE[name]
    monkeypatch.setattr(where, what, defect)
    with pytest.raises(Exception):  # noqa: B017, PT011  # how it is noticed does not matter
        judge(name, several.OneByOne, timeout=5.0)


def test_every_check_can_fail() -> None:
    """A check that no defect can fail is a check of nothing."""
    failed = {name for _, name in PAIRS} | set(DEFECTS_ABOVE)
    assert failed == {check.name for check in conformance.checks()}


class Stalls(MemoryEngine):
    """Is answered too late for a brief ttl, as on a machine that has too much to do."""

    left = 0

    async def acquire(self, request: Request) -> Grant | Busy:
        answer = await super().acquire(request)
        if Stalls.left:
            Stalls.left -= 1
            await sleep(self.world, 1.1 * request.ttl)
        return answer


@pytest.mark.parametrize(
    "name",
    [
        "an_unrenewed_lease_ends_and_says_so",
        "the_holder_knows_before_the_engine_does",
        "releasing_a_lost_lease_harms_nobody",
        "on_lost_is_called_once",
        "fences_grow_across_expiry",
    ],
)
def test_a_machine_that_stalls_breaks_no_promise(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stalls, "left", policy.UNKNOWN_TRIES)  # the client tries no more often
    judge(name, engine=Stalls, timeout=20.0)
    assert Stalls.left == 0
