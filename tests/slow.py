"""Which tests are slow or rare: ``make test`` leaves them out, ``make test-all`` runs them.

What is here still runs for every change (``.ci/run``). A test belongs here if it takes seconds
and others would see most defects that it sees, sooner.
"""

from __future__ import annotations

import pytest

TIMEOUT_S = 400  # none can hang, but some have hundreds of processes and others beside them

SLOW = {
    "cli/test_elect.py": "terms that are lost, by processes",
    "cli/test_engines.py": "scripts over every engine, by processes",
    "cli/test_interrupting.py": "a signal at many moments of each verb",
    "cli/test_loss.py": "locks that are lost, each with the time until its program has ended",
    "cli/test_shares.py": "readers, writers and slots of several engines, by processes",
    "cli/test_signals.py": "processes that are stopped in many ways",
    "cli/test_torture.py": "tortures from the command line",
    "conformance/test_versions.py": "servers of other versions, each with a part of the checks",
    "engines/consul/test_cluster.py": "three servers, and what they do without one",
    "engines/consul/test_consul_lock.py::"
    "test_nobody_is_inside_with_another_over_thousands_of_turns": "hundreds of processes",
    "engines/consul/test_fences.py::"
    "test_they_grow_across_restarts_and_a_snapshot_that_is_restored": "a server of its own",
    "engines/consul/test_sessions.py::"
    "test_a_waiter_knows_a_lock_delay_and_does_not_spin": "the seconds of a lock-delay",
    "engines/consul/test_settings.py::"
    "test_a_token_opens_what_its_policy_allows": "a server of its own",
    "engines/consul/test_unanswered.py::"
    "test_a_lost_answer_to_a_release_or_a_renewal_does_no_harm": "seconds without an answer",
    "engines/consul/test_unanswered.py::"
    "test_a_frozen_server_is_told_and_nothing_is_left": "a server that stands still",
    "engines/etcd/test_cluster.py": "three members, and what they do without one",
    "engines/firestore/test_fences.py::"
    "test_fences_grow_although_all_data_is_lost": "a server of its own",
    "engines/firestore/test_servers.py": "servers of their own, and processes that race",
    "engines/hazelcast/test_cluster.py": "three members, and what they do without one",
    "engines/hazelcast/test_fences.py": "members that are started again",
    "engines/hazelcast/test_java_client.py": "Java programs, and thousands of turns",
    "engines/hazelcast/test_partition.py": "three members, of which one is cut off",
    "engines/hazelcast/test_sessions.py": "three members, which are a Java machine",
    "engines/hazelcast/test_settings.py": "members of several kinds",
    "engines/hazelcast/test_unanswered.py": "seconds without an answer",
    "engines/http/test_replicas.py": "nodes that are started, killed, frozen and rolled",
    "engines/mysql/test_restarts.py": "a server that is started again and again",
    "engines/mysql/test_sessions.py": "sessions that the server ends, with the waits for it",
    "engines/mysql/test_signals.py::"
    "test_a_signal_at_any_moment_of_the_pool_leaves_connections_for_others": "a hundred moments",
    "engines/postgresql/test_deadlines.py": "a server that hangs in the midst of each call",
    "engines/postgresql/test_hand_over.py": "waiters that die or stand still when it is their turn",
    "engines/postgresql/test_interrupts.py": "storms of exceptions of signal handlers",
    "engines/postgresql/test_outages.py": "a server that is started again and again",
    "engines/redis/test_deadlines.py": "a server that hangs in the midst of each call",
    "engines/redis/test_interrupts.py": "storms of exceptions of signal handlers",
    "engines/redis/test_surroundings.py": "green threads, forks and other programs around a client",
    "engines/redlock/test_endings.py": "programs that end at once, many at a time",
    "engines/redlock/test_storm.py": "many faults at once",
    "engines/spanner/test_race.py": "a thousand turns of three processes",
    "engines/test_several.py::test_an_acquire_of_several_cancelled_at_any_await_leaves_nothing": (
        "every engine, await and way to be cancelled"
    ),
    "engines/test_outages.py": "a queue of every engine over an outage",
    "engines/test_signals.py": "an exception at each of some hundred moments of a call",
    "engines/zookeeper/test_ensemble.py": "three servers, and what they do without a leader",
    "engines/zookeeper/test_overflow.py": "folders whose numbers are spent",
    "engines/zookeeper/test_services.py": "nodes of the lock service, one of which is killed",
    "engines/zookeeper/test_settings.py::test_the_doctor_counts_the_members": "three servers",
    "engines/zookeeper/test_takeover.py::test_a_move_that_was_not_answered_is_found_again": (
        "a server that is silent for a while"
    ),
    "faults/redis/test_failover.py": "sentinels that vote",
    "faults/redis/test_hand_over.py": "frozen waiters, each with the time until it is passed over",
    "faults/test_clocks.py": "servers whose clock is stepped",
    "faults/test_containers.py": "processes in namespaces of their own",
    "faults/test_deaths.py": "clients that are killed, each with the ttl that it leaves behind",
    "faults/test_exhaustion.py::"
    "test_any_error_of_a_renewal_is_a_failed_renewal_and_no_more": "whole ttls of every engine",
    "faults/test_exits.py": "ways in which a process ends, by processes of every engine",
    "faults/test_faulty.py::"
    "test_a_call_that_is_held_up_for_longer_than_its_caller_waits_is_unknown": "seconds each",
    "faults/test_file.py::test_a_waiter_queues_again_when_its_file_is_gone": "ten seconds' wait",
    "faults/test_first_open.py": "processes that make one file together",
    "faults/test_forks.py": "processes that fork, of every engine",
    "faults/test_hung_servers.py": "every engine and call, with a server that hangs",
    "faults/test_leases.py::test_a_dropped_client_renews_no_more": "whole ttls of every engine",
    "faults/test_lost_answers.py": "every engine and call, without an answer",
    "faults/test_network.py::"
    "test_a_break_of_the_network_longer_than_the_ttl_is_told_in_time": "whole ttls",
    "faults/test_pauses.py::"
    "test_an_outage_longer_than_the_ttl_is_declared_before_the_lock_is_given_away": "whole ttls",
    "faults/test_pauses.py::test_a_frozen_process_that_holds_several_locks_loses_each": "ttls",
    "faults/test_pauses.py::test_a_read_moves_the_fence_too": "whole ttls",
    "faults/test_pauses.py::test_without_renewal_the_holder_is_told_at_the_end": "whole ttls",
    "faults/test_signal_exceptions.py": "thousands of exceptions of signal handlers",
    "faults/test_storm.py": "many faults at once",
    "guards/dynamodb/test_dynamodb.py": "a server that takes long to start",
    "guards/sql/test_verify.py::test_nobody_gets_the_lock_before_the_transaction_ends": (
        "every way to a database, with the time that a server keeps a waiter waiting"
    ),
    "guards/test_claim.py": "frozen holders of every engine before every guard",
    "judge_torture/test_servers.py": "tortures of every engine",
    "sim/test_recipes.py::test_every_promise_of_a_recipe_holds_for_many_seeds": "many seeds",
    "lab/test_history_page.py": "a browser, and tortures",
    "lab/test_page.py": "a browser",
    "lab/test_page_faults.py": "a browser",
    "lab/test_page_turn.py": "a browser",
    "lab/test_share.py": "a browser, and all plays of every scenario",
    "lab/test_site.py": "a site that is built, and a Python in a browser",
    "service/test_dashboard.py": "a browser",
    "service/test_events.py::test_connections_that_never_read_are_cut_and_cost_no_memory": (
        "thousands of locks, and the half minute of a client that does not read"
    ),
    "service/test_boundaries.py::test_names_words_and_reasons_are_data_everywhere": "servers",
    "service/test_caps.py": "floods, and what is ended after ten seconds and more",
    "service/test_clients.py": "programs of other languages, with renewals after ten seconds",
    "service/test_freezes.py": "nodes that stand still for longer than a ttl",
    "service/test_outages.py::test_an_engine_that_is_started_again_serves_on": "a server",
    "service/test_partitions.py": "servers behind two nodes",
    "service/test_rolls.py": "nodes that are killed and started again and again",
    "service/test_schemathesis.py": "some thousand calls",
    "service/test_tls.py::test_files_that_cannot_be_used_are_said": "certificates for each",
    "service/test_vanishing.py::test_a_client_whose_machine_lost_its_power_is_noticed": "20 s",
    "service/test_workers.py": "several processes for each",
    "languages/test_etcd.py": "thousands of turns with a program in Go",
    "languages/test_redis.py": "thousands of turns with programs in Go and Java",
    "languages/test_zookeeper.py": "thousands of turns with a program in Java",
    "sim/test_zookeeper_model.py::test_the_model_answers_as_an_ensemble_does": "three servers",
    "sim/test_service.py::test_every_promise_of_the_service_holds_for_many_seeds": "many seeds",
    "service/test_polls.py::test_a_poll_that_moves_to_another_node_keeps_its_lock": "12 s' wait",
    "service/test_stores.py": "servers behind two nodes, and longer than a ticket is kept",
    "unit/test_bench.py::test_lock_services_are_measured": "several servers, one after the other",
    "conformance/test_example_engine.py::"
    "test_the_example_keeps_its_promise": "the checks of every engine, on the one of the documents",
    "conformance/test_judge.py::"
    "test_a_broken_engine_is_rejected": "the checks themselves, on engines that break each",
    "engines/dynamodb/test_dead_holders.py::"
    "test_clocks_that_are_set_apart_steal_nothing": "whole ttls",
    "engines/firestore/test_dead_holders.py::"
    "test_clocks_that_are_set_apart_steal_nothing": "whole ttls",
    "engines/sqlite/test_dropped.py::test_a_dropped_client_leaves_nothing_open": (
        "processes, and the wait until they have nothing open"
    ),
    "engines/test_dropped.py::"
    "test_a_client_that_is_dropped_leaves_nothing_open": "the same of other engines",
    "engines/zookeeper/test_processes.py::"
    "test_a_server_that_restarts_keeps_the_lease": "a server of its own",
    "engines/zookeeper/test_settings.py::"
    "test_tls_with_a_certificate_of_our_own": "a server of its own",
    "engines/zookeeper/test_settings.py::"
    "test_a_member_that_is_silent_leaves_time_for_the_others": "a server of its own",
    "engines/zookeeper/test_shares.py::"
    "test_a_slot_that_was_not_answered_is_taken_once": "seconds without an answer",
    "faults/test_file.py::test_newcomers_and_old_clients_meet_in_the_new_file": "processes",
    "faults/test_interrupting.py::"
    "test_a_process_interrupted_while_it_waits_leaves_the_queue": "processes of every engine",
    "faults/test_network.py::test_a_silent_server_is_given_up_in_time_whatever_signals_come": (
        "seconds of silence, by processes of every engine"
    ),
    "sim/test_promises.py::test_every_promise_holds_for_many_seeds": "many seeds",
    "sim/test_runs.py::test_every_promise_holds_for_many_seeds": "many seeds",
    "sim/test_runs.py::test_every_fault_strikes": "many seeds",
    "unit/test_servers.py": "the servers of the tests themselves: clusters, sentinels, clocks",
}
"""Files, or tests of a file with all their parameters, and why."""

DOUBLED = {
    "mysql": "the tests of MariaDB, on a server that is slower to start",
    "consul": "the checks and hazards of every engine; tests/engines/consul is quick",
    "dynamodb": "an emulator that is slow; tests/engines/dynamodb is quick",
    "spanner": "the checks and hazards of every engine; tests/engines/spanner is quick",
    "firestore": "an emulator that is slow; tests/engines/firestore is quick",
    "hazelcast": "three members, which are a Java machine",
    "http etcd": "the checks of `http`, with a server behind it",
    "http memory": "the checks of `http`, over the memory of a node",
    "http postgresql": "the checks of `http`, with a server behind it",
    "http redis": "the checks of `http`, with a server behind it",
    "http replicas": "the checks of `http`, at two nodes",
    "https": "the checks of `http`, over TLS",
    "postgresql pgbouncer": "the checks of `postgresql push=no`, over a pooler",
    "postgresql push=no": "the checks of `postgresql`, where waiters look by themselves",
    "postgresql mode=advisory bound=transaction": "the checks of `postgresql mode=advisory`",
    "redis+cluster": "the checks of Redis, on servers that share the keys",
    "redis+sentinel": "the checks of Redis, on a server that sentinels name",
    "rediss": "the checks of Redis, over TLS",
    "sqlite push=no": "the checks of `sqlite`, where waiters look by themselves",
    "valkey": "the checks of Redis, on a server of the same code",
}
"""Parameters whose tests are those of another, with or without a mode after them, and why. Not in
``unit``, where no test starts a server."""


QUICK_SHARES = {"memory", "sqlite"}
"""Where the hazards of shares are always shown, beside those of locks, within one process; the
other engines and other processes are left to ``make test-all``."""


def is_slow(item: pytest.Item) -> bool:
    """Whether a test is left out of ``make test``."""
    file, _, name = item.nodeid.removeprefix("tests/").partition("::")
    if {file, f"{file}::{name.partition('[')[0]}"} & SLOW.keys():
        return True
    if file.startswith("unit/"):
        return False
    callspec = getattr(item, "callspec", None)
    given = callspec.params if callspec is not None else {}
    if given.get("what", "lock") != "lock" and given.get("url") not in QUICK_SHARES:
        return True
    return any(isinstance(one, str) and _is_doubled(one) for one in given.values())


def _is_doubled(given: str) -> bool:
    return any(given == one or given.startswith(f"{one} ") for one in DOUBLED)
