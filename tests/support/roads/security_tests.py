"""Which security tests run over HTTP, in each run or only with the external tests, and which don't, each with the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.roads.road import HTTP, MEMORY

TESTS = Path(__file__).parents[2]

ABOUT_SECURITY = re.compile(
    r"hostile|attack|injected|obedient|laundered|taint|bypass|forge[ds]?_|replay|stranger|stolen|untrusted|unregistered|frozen|secret"
    r"|revoked|hidden|nobody_else|leads_out|way_around|leak"
)
"""Words in the names of security tests and their files."""

NO_CLIENT = "no client calls: it asks the gate or the approvals themselves"
UNREGISTERED = "about hosts that nobody registered; with FORGE_HTTP_URL those get a 401 (test_other_machines.py)"
SERVICE = "the attack comes from a service or a model, and no host calls"
TURNED_AWAY = "over HTTP a wrong secret is a 401 before any call (test_tokens.py)"
NO_SERVER = "about a command or a part of the program that serves nobody"
TOO_LONG = "a shorter one of the same kind runs over HTTP; this one would take half an hour there"
STORES = "about the stores themselves"
OWN_ROADS = "its own parameters have HTTP"
SITE = "the site, whose own tests attack it with browsers and sockets"
ITS_SUBJECT = "about HTTP itself"
STDIO = "about stdio itself"
CONNECTIONS = "more calls wait than an HTTP client opens connections, so most of them would wait in the client"

FILES_NOT_OVER_HTTP: Mapping[str, str] = {
    "browser/": "in a browser",
    "contract/access/test_site_for_people_with_rules.py": SITE,
    "contract/agents/": SERVICE,
    "contract/approvals/test_hostile_reactions.py": SERVICE,
    "contract/approvals/test_same_account.py": "the attacker has the server's own account, which is no caller",
    "contract/approvals/test_zulip_notices.py": SERVICE,
    "contract/cli/": "in a terminal",
    "contract/connectors/test_http.py": SERVICE,
    "contract/contradictions/": "people settle contradictions, not hosts",
    "contract/gate/test_tokens.py": ITS_SUBJECT,
    "contract/gate/test_trust_gradient.py": OWN_ROADS,
    "contract/gate/test_unregistered_callers.py": OWN_ROADS,
    "contract/git/": STORES,
    "contract/protocol/test_hostile_protocol.py": OWN_ROADS,
    "contract/protocol/test_server.py": OWN_ROADS,
    "contract/runs/test_supervisor.py": NO_CLIENT,
    "contract/state/": STORES,
    "contract/transport/": ITS_SUBJECT,
    "contract/web/": SITE,
    "external/": OWN_ROADS,
    "contract/writing/test_acts.py": NO_CLIENT,
}
"""Folders and files whose tests have no variant over HTTP, each with the reason."""

NOT_OVER_HTTP: Mapping[str, Mapping[str, str]] = {
    "contract/access/test_hidden_in_services.py": {"test_every_tool_of_a_service_has_a_probe": NO_CLIENT},
    "contract/gate/test_gate.py": {
        "test_a_call_below_level_2_is_refused_with_one_plain_sentence_and_changes_nothing": UNREGISTERED,
        "test_nothing_a_client_says_of_itself_raises_trust": UNREGISTERED,
        "test_any_number_of_names_that_a_client_gives_itself_leaves_its_score": UNREGISTERED,
        "test_a_frozen_principal_reads_nothing_but_may_ask_about_itself": UNREGISTERED,
        "test_a_host_that_a_person_enrolled_and_granted_may_act_and_another_may_not": TURNED_AWAY,
        "test_a_replaced_secret_stops_working_immediately": TURNED_AWAY,
        "test_without_a_state_store_acts_are_refused_and_reads_continue_for_a_minute": NO_CLIENT,
        "test_trust_is_read_once_for_a_call_and_again_where_planning_took_long": NO_CLIENT,
        "test_another_calls_late_read_of_trust_does_not_count_for_this_one": NO_CLIENT,
        "test_no_path_to_a_tool_bypasses_the_gate": NO_CLIENT,
        "test_a_name_that_cannot_be_a_hosts_is_refused": NO_CLIENT,
        "test_grants_stay_within_their_limits": NO_CLIENT,
    },
    "contract/gate/test_taint.py": {
        "test_text_belongs_to_a_project_a_channel_or_a_conversation": NO_CLIENT,
        "test_text_read_while_the_database_is_away_counts_once_it_is_back": NO_CLIENT,
        "test_a_process_whose_callers_may_land_elsewhere_shows_no_untrusted_text_that_it_cannot_record": NO_CLIENT,
    },
    "contract/access/test_hidden_pages.py": {
        "test_every_part_of_the_state_is_decided_on_for_callers": NO_SERVER,
        "test_every_service_is_decided_on_for_callers": NO_SERVER,
        "test_every_tool_has_a_probe": NO_SERVER,
        "test_none_of_ten_thousand_answers_shows_that_there_are_hidden_pages": TOO_LONG,
    },
    "contract/access/test_rule_verb.py": {
        "test_a_rule_without_a_right_which_somebody_wrote_into_the_database_is_listed": NO_SERVER,
    },
    "contract/connectors/test_hostile_connectors.py": {
        "test_no_redirect_leads_inward_or_asks_with_another_key": NO_CLIENT,
        "test_a_traceback_forges_no_line_either": NO_CLIENT,
    },
    "contract/models/test_model_secrets.py": {
        "test_no_verb_takes_a_key_as_an_argument_because_every_account_can_read_those": NO_SERVER,
    },
    "contract/toolsets/journeys/test_attacks.py": {
        "test_a_quote_of_markup_or_a_heading_shows_nothing": NO_CLIENT,
        "test_a_quote_with_the_pages_words_counts_whatever_markup_is_around_them": NO_CLIENT,
        "test_a_page_that_is_quoted_very_often_is_read_once": NO_CLIENT,
        "test_ids_of_very_many_items_are_compared_in_no_time": NO_CLIENT,
        "test_resuming_costs_at_most_2500_tokens_however_long_the_record": NO_CLIENT,
    },
    "contract/writing/test_obsidians_folders.py": {"test_no_verb_shows_or_changes_what_is_in_them": NO_SERVER},
    "contract/toolsets/runs/test_gated_tools.py": {
        "test_a_texts_origin_is_named_without_anyones_words": NO_CLIENT,
        "test_a_channels_name_is_in_quotes_that_it_cannot_close": NO_CLIENT,
    },
    "contract/gate/test_trusted_places.py": {
        "test_trusting_a_place_needs_the_passkey_once_there_is_one_and_undoing_it_never_does": NO_CLIENT,
        "test_a_place_written_into_the_database_by_hand_is_found_out": NO_CLIENT,
        "test_the_command_line_trusts_lists_and_untrusts_places": NO_CLIENT,
    },
    "contract/approvals/test_approval_bypass.py": {
        "test_calls_beyond_the_waiting_room_are_answered_immediately": CONNECTIONS,
        "test_a_freeze_outlasts_a_grant_whose_process_died_before_executing_it": NO_CLIENT,
        "test_the_approver_learns_the_outcome_even_if_another_process_was_faster": NO_CLIENT,
    },
    "contract/approvals/test_reviewers.py": {
        "test_a_decision_counts_by_the_principal_of_who_decides": NO_CLIENT,
        "test_a_dismissal_is_decided_by_the_reviewers_of_its_pages": NO_CLIENT,
        "test_an_act_on_several_pages_takes_a_reviewer_of_all_of_them": NO_CLIENT,
        "test_it_is_the_same_on_postgresql": NO_CLIENT,
        "test_links_in_other_folders_that_a_move_rewrites_count_too": NO_CLIENT,
        "test_on_the_page_somebody_who_is_no_reviewer_sees_who_may_decide_and_can_do_nothing": NO_CLIENT,
        "test_on_the_site_only_who_decides_on_a_page_takes_its_changes_back_at_once": NO_CLIENT,
        "test_once_the_account_is_a_reviewer_the_page_says_for_which_folder_and_decides": NO_CLIENT,
        "test_pages_without_reviewers_are_decided_as_ever_and_trust_is_no_page": NO_CLIENT,
        "test_reviewers_are_set_listed_and_removed_in_a_terminal_and_a_proposal_shows_them": NO_CLIENT,
        "test_with_the_setting_nobody_decides_on_what_their_own_hosts_ask_for": NO_CLIENT,
        "test_without_the_setting_people_decide_on_their_own_hosts_as_ever": NO_CLIENT,
    },
    "contract/approvals/test_run_elicitation.py": {
        "test_over_stdio_a_run_is_let_begin_asked_and_led_to_its_end_in_one_call": STDIO,
    },
    "contract/app/test_hostile_folder.py": {
        "test_a_relative_path_in_the_hosts_entry_does_not_lead_into_the_repository": NO_SERVER,
        "test_started_as_a_module_it_imports_no_package_of_the_repository": NO_SERVER,
        "test_the_process_that_prepares_documents_imports_nothing_of_the_repository": NO_SERVER,
        "test_the_browser_is_opened_by_no_program_of_the_repository": NO_SERVER,
        "test_the_browser_that_a_person_chose_still_gets_the_link": NO_SERVER,
    },
    "contract/app/test_hostile_logs.py": {
        "test_a_folder_forges_no_line_by_its_name": NO_SERVER,
        "test_no_error_forges_a_line_and_its_traceback_stays": NO_SERVER,
        "test_a_log_line_says_how_much_of_a_long_text_was_cut_and_keeps_its_end": NO_SERVER,
        "test_no_request_over_http_forges_a_line": ITS_SUBJECT,
    },
}
"""Single tests without a variant over HTTP, by file, each with the reason."""

IN_EACH_RUN: frozenset[str] = frozenset(
    {
        "contract/approvals/test_approval_bypass.py::test_joining_a_harmless_call_does_not_lower_the_level_needed",
        "contract/approvals/test_replays.py::test_a_question_that_was_answered_too_late_is_rejected",
        "contract/gate/test_linked_files.py::test_no_other_page_speaks_for_the_root_by_being_called_so",
        "contract/gate/test_provenance_marks.py::test_level_5_alone_cannot_remove_the_mark_of_a_folder",
        "contract/gate/test_taint.py::test_a_search_that_shows_untrusted_text_counts_as_reading_it",
        "contract/toolsets/runs/test_laundered_texts.py::test_a_runs_later_text_taints_its_journey",
    }
)
"""Tests that run over HTTP by default, as a sample: all of them would take minutes. The others do with the external tests."""


def reason_against_http(file: str, name: str) -> str | None:
    """Return why a test of that file, relative to `tests/`, does not run over HTTP; None if it does."""
    places = (reason for place, reason in FILES_NOT_OVER_HTTP.items() if place in (file, file[: len(place)]))
    return NOT_OVER_HTTP.get(file, {}).get(name) or next(places, None)


def roads_of(test: pytest.Function) -> Sequence[Any]:
    """Return the roads of a test that is marked as a security test, as parameters."""
    file, name = test.path.relative_to(TESTS).as_posix(), test.originalname
    if name in NOT_OVER_HTTP.get(file, {}):
        return [MEMORY]
    by_default = f"{file}::{name}" in IN_EACH_RUN
    return [MEMORY, pytest.param(HTTP, marks=[] if by_default else pytest.mark.external)]
