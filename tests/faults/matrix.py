"""Which tests show which hazard over which engine, or why there is none.

The hazards are the known ways in which distributed locks go wrong. A row names the tests that
inject it; ``test_matrix.py`` fails when a hazard is in no row, when a named test does not exist,
when a test that names a hazard is in no row, and when an engine has neither a test for a hazard nor
a reason why it cannot meet it. Tests in ``tests/engines`` count by naming it. Those of the lock
service are in ``tests/service``.

Which engines a test runs over is said in ``engines.py``. Where a flavor is missing from a test, the
hazard cannot reach it: a cancelled task or a blocked loop needs asyncio, an interrupted thread the
blocking flavor. What only one kind of server can do is in a folder of its own. ``grid.py`` shows
the outcomes of a run.
"""

from __future__ import annotations

from typing import NamedTuple


class NotApplicable(NamedTuple):
    """No engine or flavor that we have can meet this hazard."""

    why: str


MATRIX: dict[str, list[str] | NotApplicable] = {
    "H01": [
        "test_pauses.py::test_a_frozen_holder_learns_its_loss_and_harms_nobody",
        "test_pauses.py::test_a_frozen_process_that_holds_several_locks_loses_each",
        "test_storm.py::test_no_two_hold_together_whoever_is_killed_or_frozen",
    ],
    "H02": [
        "test_pauses.py::test_work_longer_than_the_ttl_is_renewed",
        "test_pauses.py::test_without_renewal_the_holder_is_told_at_the_end",
    ],
    "H03": ["test_pauses.py::test_a_pause_between_check_and_act_is_caught_by_the_fence_alone"],
    "H04": ["test_pauses.py::test_a_read_moves_the_fence_too"],
    "H05": [
        "test_pauses.py::test_an_outage_shorter_than_the_ttl_costs_nothing",
        "test_pauses.py::test_an_outage_longer_than_the_ttl_is_declared_before_the_lock_is_given_away",
        "test_pauses.py::test_a_renewal_that_hangs_does_not_keep_the_keeper_from_telling",
        "test_network.py::test_a_break_of_the_network_shorter_than_the_ttl_costs_nothing",
        "test_network.py::test_a_break_of_the_network_longer_than_the_ttl_is_told_in_time",
    ],
    "H06": [
        "test_pauses.py::test_a_renewal_that_is_told_not_yours_ends_the_lease",
        "test_file.py::test_a_holder_learns_that_its_file_is_gone",
        "test_file.py::test_newcomers_and_old_clients_meet_in_the_new_file",
        "test_file.py::test_a_waiter_queues_again_when_its_file_is_gone",
    ],
    "H07": ["test_pauses.py::test_a_held_interpreter_is_noticed_at_once_afterwards"],
    "H08": [
        "test_pauses.py::test_a_blocked_event_loop_is_noticed_at_once_afterwards",
        "test_pauses.py::test_a_body_that_blocked_its_loop_is_cancelled_and_raises",
    ],
    "H09": [
        "test_cancelling.py::test_an_acquire_cancelled_at_any_await_leaves_no_orphan",
        "test_cancelling.py::test_a_waiter_cancelled_at_any_await_leaves_the_queue",
        "test_cancelling.py::test_a_waiter_cancelled_while_the_lock_is_handed_to_it_leaves_no_orphan",
        "test_interrupting.py::test_an_interrupted_waiter_leaves_the_queue",
        "test_interrupting.py::test_an_interrupted_acquire_of_a_slow_engine_leaves_no_orphan",
        "test_interrupting.py::test_a_process_interrupted_while_it_waits_leaves_the_queue",
        "test_cancelling.py::test_an_acquire_within_a_taskgroup_that_fails_leaves_no_orphan",
        "test_signal_exceptions.py::test_a_handler_that_raises_at_any_moment_leaves_no_lock_held_by_nobody",
    ],
    "H10": [
        "test_cancelling.py::test_a_time_limit_around_acquire_leaves_no_orphan",
        "test_hung_servers.py::test_a_time_limit_of_asyncio_is_obeyed",
    ],
    "H11": [
        "test_cancelling.py::test_a_release_cancelled_at_any_await_still_releases",
        "test_cancelling.py::test_a_close_cancelled_at_any_await_still_releases",
        "test_cancelling.py::test_a_renewal_cancelled_at_any_await_keeps_the_lease",
    ],
    "H12": ["test_cancelling.py::test_a_call_after_a_cancelled_one_gets_its_own_answer"],
    "H13": [
        "test_lost_answers.py::test_an_acquire_whose_answer_is_lost_is_granted_once",
        "test_lost_answers.py::test_a_waiter_that_asks_again_behind_others_keeps_its_place",
        "test_lost_answers.py::test_an_acquire_that_is_never_answered_fails_cleanly",
        "test_lost_answers.py::test_an_acquire_that_cannot_even_be_taken_back_says_until_when",
        "test_lost_answers.py::test_a_waiter_whose_answers_are_lost_keeps_its_place",
        "test_network.py::test_an_acquire_whose_answer_is_lost_on_its_way_is_granted_once",
        "test_network.py::test_an_answer_that_comes_after_its_lease_has_ended_is_not_believed",
    ],
    "H14": [
        "test_lost_answers.py::test_a_release_whose_answer_is_lost_is_a_release",
        "test_lost_answers.py::test_a_release_that_is_never_answered_is_unknown",
        "test_lost_answers.py::test_a_release_that_failed_can_be_tried_again",
        "test_network.py::test_a_release_whose_answer_is_lost_on_its_way_is_a_release",
    ],
    "H15": [
        "test_lost_answers.py::test_a_renewal_whose_answer_is_lost_keeps_the_lease",
        "test_lost_answers.py::test_an_early_renewal_whose_answer_is_lost_is_the_callers_to_know",
        "test_network.py::test_a_renewal_whose_answer_is_lost_on_its_way_keeps_the_lease",
    ],
    "H16": ["test_network.py::test_no_driver_repeats_a_request_behind_our_back"],
    "H17": [
        "test_forks.py::test_a_forked_child_cannot_use_its_parents_lease",
        "test_forks.py::test_a_child_forked_inside_a_loop_cannot_use_its_parents_lease",
        "test_forks.py::test_a_lock_in_memory_stays_with_the_parent",
        "test_forks.py::test_a_child_that_ends_by_itself_takes_nothing_with_it",
    ],
    "H18": [
        "test_forks.py::test_a_child_contends_with_its_parent_through_the_same_client",
        "test_forks.py::test_a_child_holds_sqlites_own_locks_in_its_own_name",
        "test_forks.py::test_a_child_works_on_safely_when_its_parent_has_gone",
        "test_forks.py::test_a_fork_while_other_threads_use_the_engine_is_safe",
    ],
    "H19": ["test_leases.py::test_any_thread_or_task_may_release_a_lease_through_its_handle"],
    "H20": ["test_leases.py::test_a_block_that_was_not_acquired_in_time_never_begins"],
    "H21": [
        "test_deaths.py::test_the_lock_of_a_killed_holder_comes_free_when_its_lease_ends",
        "test_deaths.py::test_the_lock_of_a_killed_holder_is_free_for_a_newcomer",
        "test_storm.py::test_no_two_hold_together_whoever_is_killed_or_frozen",
    ],
    "H22": [
        "test_deaths.py::test_a_waiter_killed_while_it_is_woken_does_not_keep_the_lock",
        "test_deaths.py::test_a_waiter_frozen_while_it_is_woken_is_passed_over_and_keeps_its_place",
        "test_storm.py::test_no_two_hold_together_whoever_is_killed_or_frozen",
        "redis/test_pushes.py::test_a_waiter_keeps_its_place_when_its_link_breaks",
        "redis/test_pushes.py::test_a_waiter_that_cannot_be_called_is_passed_over_at_once",
        "redis/test_hand_over.py::test_a_waiter_frozen_past_its_ttl_does_not_believe_the_old_message",
        "redis/test_hand_over.py::test_a_frozen_client_costs_one_ttl_however_many_of_it_wait",
    ],
    "H23": [
        "test_deaths.py::test_a_waiter_gets_a_lock_that_nobody_releases",
        "test_deaths.py::test_a_waiter_gets_a_lock_whose_lease_just_ends",
        "test_network.py::test_a_waiter_whose_link_breaks_is_woken_all_the_same",
    ],
    "H24": ["test_leases.py::test_no_renewal_counts_after_release_has_returned"],
    "H25": ["test_leases.py::test_a_lock_can_be_used_again_after_its_lease_was_lost"],
    "H26": [
        "test_clocks.py::test_a_step_of_the_wall_clock_loses_no_lease",
        "test_clocks.py::test_a_step_of_the_wall_clock_does_not_free_an_abandoned_lock_early",
        "test_clocks.py::test_fences_grow_although_the_wall_clock_goes_back",
    ],
    "H27": [
        "test_clocks.py::test_a_suspended_machine_has_lost_the_leases_that_ended_meanwhile",
        "test_clocks.py::test_a_monotonic_clock_that_jumps_changes_nothing",
        "test_clocks.py::test_a_process_in_another_time_namespace_shares_the_locks",
        "test_clocks.py::test_a_waiter_in_another_time_namespace_is_served_in_turn",
        "test_clocks.py::test_the_offset_of_a_time_namespace_is_read",
        "test_containers.py::test_a_container_with_a_boot_id_of_its_own_shares_the_locks",
        "test_containers.py::test_a_start_of_the_machine_ends_the_leases_of_earlier_ones",
        "test_containers.py::test_a_lease_that_may_be_of_this_boot_is_left_until_its_ttl_has_passed",
    ],
    "H28": [
        "../unit/test_odd_input.py::test_a_misuse_is_refused_before_anything_is_sent",
        "../unit/test_odd_input.py::test_a_misuse_is_refused_before_anything_is_awaited",
        "../unit/test_odd_input.py::test_an_odd_ttl_of_an_early_renewal_is_refused_and_the_lease_goes_on",
        "../unit/test_odd_input.py::test_an_odd_wait_for_a_loss_is_refused",
        "../unit/test_odd_input.py::test_an_unusual_name_is_locked_as_it_is",
        "../unit/test_odd_input.py::test_names_that_only_look_the_same_are_two_locks",
    ],
    "H29": [
        "test_exhaustion.py::test_any_error_of_a_renewal_is_a_failed_renewal_and_no_more",
        "test_exhaustion.py::test_a_renewal_that_keeps_failing_ends_in_a_loss_that_says_why",
        "test_exhaustion.py::test_a_process_without_free_descriptors_goes_on_renewing",
        "test_exhaustion.py::test_a_process_that_cannot_reach_its_file_for_want_of_descriptors_loses_the_lease_in_time",
        "test_exhaustion.py::test_a_keeper_that_gets_no_thread_tries_again",
        "test_exhaustion.py::test_a_lease_that_nobody_could_renew_is_not_given_out",
        "test_network.py::test_a_process_that_cannot_connect_for_want_of_descriptors_loses_the_lease_in_time",
    ],
    "H30": ["test_deaths.py::test_the_order_of_the_queue_survives_the_death_of_one_waiter"],
    "H31": [
        "test_deaths.py::test_a_waiter_that_timed_out_has_left_the_queue",
        "test_deaths.py::test_a_waiter_of_another_process_that_timed_out_has_left_the_queue",
    ],
    "H32": [
        "test_leases.py::test_a_lease_that_is_dropped_warns_and_is_renewed_no_more",
        "test_leases.py::test_a_dropped_client_renews_no_more",
    ],
    "H33": [
        "test_exits.py::test_a_program_that_ends_releases_at_once",
        "test_exits.py::test_a_program_ends_although_a_thread_waits",
        "test_exits.py::test_all_tasks_of_an_interrupted_loop_release",
        "test_exits.py::test_a_task_that_nobody_awaits_releases_when_the_loop_ends",
        "test_exits.py::test_a_release_under_way_is_finished_when_the_loop_ends",
        "test_exits.py::test_a_loop_that_ends_with_a_bare_lease_does_not_hang",
        "test_network.py::test_a_silent_server_is_given_up_in_time_whatever_signals_come",
    ],
    "H34": [
        "redis/test_server_clock.py::test_a_step_forward_ends_the_lease_and_the_fence_protects",
        "redis/test_server_clock.py::test_the_holder_learns_of_a_step_forward_by_its_next_renewal",
        "redis/test_server_clock.py::test_a_step_back_keeps_the_holder_and_its_release_frees",
        "redis/test_server_clock.py::test_fences_grow_whatever_the_servers_clock_does",
        "redis/test_server_clock.py::test_waiters_are_served_in_their_order_although_the_clock_steps",
    ],
    "H35": [
        "redis/test_restarts.py::test_fences_never_go_back_although_all_data_is_lost",
        "redis/test_restarts.py::test_a_holder_that_the_server_has_forgotten_is_told",
        "redis/test_restarts.py::test_a_waiter_queues_again_when_the_server_has_forgotten_the_queue",
        "redis/test_restarts.py::test_a_lease_survives_a_restart_of_a_server_that_remembers",
    ],
    "H36": [
        "redis/test_restarts.py::test_a_power_cut_that_loses_the_last_second_is_survived_by_the_fence",
    ],
    "H37": [
        "redis/test_full_disk.py::test_a_full_disk_is_said_clearly_and_leaves_no_half_state",
        "redis/test_full_disk.py::test_a_server_that_dies_of_a_full_disk_grants_nothing",
    ],
    "H38": [
        "redis/test_failover.py::test_a_stale_replica_that_takes_over_is_survived_by_the_fence",
        "redis/test_failover.py::test_a_grant_that_waits_for_a_replica_is_taken_back_when_none_has_it",
        "redis/test_failover.py::test_a_lease_survives_a_failover_of_sentinels",
        "redis/test_failover.py::test_a_lease_survives_a_failover_in_a_cluster_and_the_move_of_its_slot",
    ],
    "H39": [
        "redis/test_frozen_server.py::test_a_holder_gives_up_in_time_while_the_server_stands_still",
        "redis/test_frozen_server.py::test_a_grant_that_came_too_late_is_not_handed_out_and_ends_by_itself",
        "redis/test_frozen_server.py::test_waiters_go_on_when_the_server_does",
    ],
    "H40": [
        "redis/test_scripts.py::test_a_server_that_forgets_its_scripts_is_told_them_again",
        "redis/test_scripts.py::test_a_holder_whose_key_was_deleted_is_told_and_takes_nothing_again",
        "redis/test_scripts.py::test_clients_whose_connections_are_killed_go_on",
    ],
    "H41": [
        "redis/test_memory.py::test_a_holder_whose_lock_was_evicted_is_told",
        "redis/test_memory.py::test_a_server_that_may_drop_locks_is_reported",
        "redis/test_memory.py::test_a_server_that_is_full_refuses_and_changes_nothing",
    ],
    "H42": [
        "redis/test_names.py::test_every_name_is_a_lock_of_its_own",
        "redis/test_names.py::test_a_lock_of_any_name_is_handed_over",
        "redis/test_names.py::test_names_that_share_a_slot_share_nothing_else",
        "redis/test_names.py::test_a_prefix_is_taken_literally",
    ],
    "H71": [
        "test_file.py::test_a_holder_stopped_in_its_section_blocks_no_other_name",
        "test_file.py::test_processes_stopped_between_two_writes_let_others_in",
        "test_file_signals.py::test_a_handler_that_raises_at_any_moment_blocks_neither_file_nor_threads",
    ],
    "H72": [
        "test_file.py::test_opening_and_closing_the_file_in_the_holders_process_changes_nothing",
        "test_file.py::test_the_last_client_to_leave_leaves_one_file",
    ],
    "H73": [
        "test_file.py::test_a_network_file_system_is_refused",
        "test_file.py::test_a_local_file_system_is_not_refused",
        "test_file.py::test_a_file_on_a_network_file_system_is_not_even_made",
        "test_file.py::test_a_link_into_a_network_file_system_is_followed",
        "test_containers.py::test_a_file_that_is_mounted_by_itself_is_refused",
        "test_containers.py::test_a_folder_that_is_mounted_elsewhere_shares_the_locks",
        "test_containers.py::test_a_file_with_hard_links_is_refused_by_every_name",
        "test_containers.py::test_a_hard_link_made_while_the_file_is_open_lets_nobody_in_twice",
        "test_containers.py::test_every_way_to_write_a_path_leads_to_the_same_locks",
        "test_containers.py::test_a_path_that_becomes_a_link_is_not_followed",
    ],
    "H74": [
        "test_exhaustion.py::test_a_full_disk_is_said_clearly_and_changes_nothing",
        "test_exhaustion.py::test_a_lease_survives_a_disk_that_is_full_for_a_while",
        "test_exhaustion.py::test_a_full_disk_refuses_a_new_file_cleanly",
    ],
    "H81": [
        "test_hung_servers.py::test_an_acquire_ends_with_its_callers_time",
        "test_hung_servers.py::test_a_waiter_ends_with_its_callers_time_and_leaves_the_queue",
        "test_hung_servers.py::test_a_time_limit_of_asyncio_is_obeyed",
    ],
    "H82": [
        "test_hung_servers.py::test_a_waiter_ends_with_its_callers_time_and_leaves_the_queue",
        "test_hung_servers.py::test_a_good_body_is_not_blamed_for_a_release_that_nobody_answers",
    ],
    "H83": [
        "test_signal_exceptions.py::test_a_handler_that_raises_at_any_moment_leaves_no_lock_held_by_nobody",
    ],
    "H84": [
        "test_hung_servers.py::test_a_short_break_costs_a_waiter_nothing_however_long_it_has_waited",
    ],
    "H75": [
        "../service/test_vanishing.py::test_a_client_that_vanishes_while_queued_leaves_the_queue",
        "../service/test_vanishing.py::test_a_grant_that_comes_after_the_end_of_its_client_is_given_back",
        "../service/test_vanishing.py::test_a_client_that_is_gone_before_its_call_is_read_gets_no_lock",
        "../service/test_vanishing.py::test_the_place_of_a_poll_that_vanished_is_passed_over",
        "../service/test_vanishing.py::test_a_client_whose_machine_lost_its_power_is_noticed",
        "../service/test_vanishing.py::test_an_answer_that_was_handed_over_is_never_taken_back",
    ],
    "H76": [
        "../service/test_rolls.py::test_nobody_loses_a_lock_while_nodes_are_killed_and_rolled",
        "../service/test_workers.py::test_a_worker_that_dies_is_replaced_and_holders_keep_their_locks",
    ],
    "H77": [
        "../service/test_freezes.py::test_a_late_answer_is_not_believed_for_longer_than_it_is_true",
        "../service/test_freezes.py::test_a_renewal_that_was_frozen_does_not_bring_a_lost_lock_back",
        "../service/test_freezes.py::test_there_is_one_holder_however_often_a_node_stands_still",
    ],
    "H78": [
        "../service/test_partitions.py::test_a_node_that_is_cut_off_says_so_and_answers_nothing_from_memory",
    ],
    "H79": [
        "../service/test_clocks.py::test_a_step_of_the_wall_clock_changes_nothing",
        "../service/test_clocks.py::test_a_suspended_machine_has_lost_the_leases_that_ended_meanwhile",
    ],
    "H80": [
        "../service/test_retries.py::test_a_call_that_is_sent_many_times_at_once_is_one_tenure",
        "../service/test_retries.py::test_renewals_and_releases_can_be_repeated",
        "../service/test_retries.py::test_a_delayed_renewal_or_release_harms_nobody_who_came_later",
        "../service/test_retries.py::test_a_delayed_copy_of_what_ended_an_attempt_does_not_end_the_next",
        "../service/test_retries.py::test_a_call_that_is_sent_again_after_a_cut_gets_and_keeps_the_lock",
        "../service/test_retries.py::test_an_answer_that_was_lost_is_asked_for_again",
        "../service/test_retries.py::test_one_id_for_two_names_is_two_locks",
        "../service/test_retries.py::test_a_call_that_leaves_slowly_takes_nothing_from_the_one_that_came_after",
        "../service/test_retries.py::test_a_push_that_an_older_poll_took_wakes_the_newest",
        "../service/test_retries.py::test_a_sweeper_takes_nothing_from_a_call_that_has_just_come_back",
        "../service/test_retries.py::test_a_call_that_comes_while_its_place_is_swept_out_waits_for_that",
        "../service/test_retries.py::test_what_was_withdrawn_while_it_was_asked_for_is_not_kept",
        "../service/test_retries.py::test_a_wait_whose_place_is_not_taken_back_ends_in_doubt",
        "../service/test_retries.py::test_an_engine_that_fails_those_who_wait_leaves_them_in_doubt",
        "../service/test_retries.py::test_a_poll_says_that_nothing_happened_only_where_all_stood_in_the_queue_before",
        "../service/test_retries.py::test_a_place_that_nobody_polls_for_is_left_although_the_engine_was_away",
        "../service/test_retries.py::test_a_grant_that_comes_too_late_did_not_happen_only_if_it_was_taken_back",
    ],
}
"""The tests beside this file, and of the service; H43 to H56 and H59 to H70 are shown in
``tests/engines``."""

SERVERS = (
    *("postgresql", "mariadb", "mysql", "redis", "consul", "dynamodb", "spanner"),
    *("etcd", "firestore", "http"),
)

# Hazards that only some engines can meet, and what keeps the others from it.
ONLY: dict[tuple[str, ...], tuple[set[str], str]] = {
    ("H34",): (
        {
            "redis",
            "redlock",
            "postgresql",
            "mariadb",
            "mysql",
            "spanner",
            "firestore",
            "zookeeper",
            "etcd",
        },
        "has no clock of a server between its clients",
    ),
    ("H35",): (
        {
            "redis",
            "redlock",
            "postgresql",
            "consul",
            "dynamodb",
            "spanner",
            "firestore",
            "hazelcast",
        },
        "keeps its data when it restarts, or is none",
    ),
    ("H36",): ({"redis"}, "has every grant on disk before it tells, or none at all"),
    ("H37",): ({"redis"}, "see H74 for a full disk"),
    ("H38",): ({"redis", "postgresql"}, "has no replica that could be behind"),
    ("H39",): (
        {"redis", "redlock", "postgresql", "mariadb", "mysql", "spanner", "firestore"},
        "is no server, or is cut off in silence in the tests of H47 and H54",
    ),
    ("H40",): ({"redis", "redlock"}, "runs no scripts in a server"),
    ("H41",): ({"redis", "redlock"}, "drops no locks for want of memory"),
    ("H42",): ({"redis"}, "has no slots"),
    ("H43", "H44", "H45", "H46"): ({"redlock"}, "asks no majority of independent servers"),
    ("H47",): (
        {"zookeeper", "etcd", "consul", "hazelcast"},
        "has no session that carries its leases",
    ),
    ("H48", "H49", "H50"): ({"zookeeper"}, "a hazard of ZooKeeper sessions and nodes"),
    ("H51",): (
        {"zookeeper", "etcd"},
        "has no members that agree on a leader, or asks it by its reads",
    ),
    ("H54",): (
        {"zookeeper", "etcd", "consul", "hazelcast"},
        "has no members that agree on a leader",
    ),
    ("H52",): ({"etcd", "hazelcast"}, "has no queue that a lease or session could leave unseen"),
    ("H53",): ({"etcd"}, "a hazard of etcd's watches"),
    ("H55",): ({"etcd", "consul", "hazelcast"}, "has no leases that could leak"),
    ("H57", "H58"): ({"consul"}, "a hazard of Consul's sessions"),
    ("H56",): (
        {"zookeeper", "etcd", "consul", "dynamodb", "spanner", "firestore", "hazelcast"},
        "the record is deleted in the tests of H06 and H40",
    ),
    ("H59", "H60"): ({"dynamodb"}, "judges the end of a lease by the clock of its server"),
    ("H61", "H62", "H65", "H66", "H69"): (
        {"postgresql", "mariadb", "mysql"},
        "has no sessions that hold a lock by a number or name",
    ),
    ("H63", "H67"): ({"postgresql"}, "a hazard of PostgreSQL's advisory locks"),
    ("H64",): ({"postgresql", "mariadb", "mysql"}, "has no standby; for Redis see H38"),
    ("H68", "H70"): ({"mariadb", "mysql"}, "a hazard of MySQL and MariaDB"),
    ("H81", "H82"): (
        {*SERVERS, "sqlite", "redlock", "zookeeper", "hazelcast"},
        "asks nobody who could be silent",
    ),
    ("H84",): (
        {*SERVERS, "zookeeper", "hazelcast"},
        "has no network between a waiter and its queue, or no queue",
    ),
    ("H85",): (
        {"redis", "redlock", "dynamodb", "spanner", "firestore", "etcd", "zookeeper"},
        "keeps names apart from its own records",
    ),
    ("H86",): ({"postgresql", "mariadb", "mysql"}, "is told apart by its address alone"),
    ("H75", "H77", "H79", "H80"): ({"http"}, "is reached without a service in between"),
    ("H76",): (
        {"sqlite", "redis", "postgresql", "etcd", "http"},
        "stands behind the service as those do over which this is shown",
    ),
    ("H78",): (
        {"redis", "postgresql", "etcd", "http"},
        "is no server, or stands behind the service as those do over which this is shown",
    ),
    ("H71", "H72", "H73"): ({"sqlite"}, "keeps no locks in a file of its own"),
    ("H74",): (
        {"sqlite", "postgresql", "mariadb", "mysql"},
        "keeps no file here; for Redis see H37",
    ),
}

NOT_YET: dict[tuple[str, str], str] = {
    ("H34", "firestore"): "Google's clocks cannot be stepped, and its emulator was not",
}
"""Cells that could have a test and have none, with what stands in the way."""

ELSEWHERE: dict[tuple[str, str], str] = {
    (
        "H34",
        "spanner",
    ): "its clocks follow TrueTime, which does not step; the emulator was not tried",
    ("H36", "redlock"): "a node that restarts without its last second has lost less than in H45",
    ("H37", "redlock"): "a node whose disk is full dies, as in H43, or refuses, as in H41",
    ("H42", "redlock"): "asks single servers, which have no slots",
    ("H81", "zookeeper"): "stopped by a signal in tests/engines/test_outages.py",
    ("H82", "zookeeper"): "stopped by a signal in tests/engines/test_outages.py",
    ("H82", "sqlite"): "what a busy file has not done was not sent: see H81",
    ("H82", "redlock"): "its undos are repeated in the tests of H43 and H44",
    ("H81", "hazelcast"): "answers are lost in tests/engines/hazelcast/test_unanswered.py",
    ("H82", "hazelcast"): "answers are lost in tests/engines/hazelcast/test_unanswered.py",
    ("H84", "hazelcast"): "a leader is frozen in tests/engines/hazelcast/test_cluster.py",
    ("H84", "zookeeper"): "cut off in tests/engines/test_outages.py",
    ("H81", "redlock"): "stopped by a signal in tests/engines/redis/test_deadlines.py",
    ("H85", "etcd"): "shown in tests/engines/test_names.py",
    ("H85", "zookeeper"): "shown in tests/engines/test_names.py",
    ("H85", "redlock"): "keeps its keys as a single server does",
}
"""Cells that need no test, since another of the same engine shows what would happen, and more."""
