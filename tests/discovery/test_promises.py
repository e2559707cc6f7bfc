"""What is promised of an inventory, case by case, and the tests that hold it to that."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
INVENTORY, CARDS, SMI = "discovery/test_inventory.py", "discovery/test_nvidia_cards.py", "discovery/test_nvidia_smi.py"
HEALTH, PORTS, FABRIC = "discovery/test_gpu_health.py", "discovery/test_infiniband.py", "discovery/test_fabric.py"
LOOK = "workflow/test_look.py"

CASES = {
    "the-tool-is-missing-or-not-executable": (
        (INVENTORY, "test_a_node_without_the_tool_is_a_node_without_gpus"),
        (INVENTORY, "test_a_missing_tool_is_an_error_where_the_driver_has_taken_cards"),
        (SMI, "test_a_tool_that_may_not_be_executed_is_an_error_and_no_node_without_gpus"),
    ),
    "driver-and-library-differ-while-engines-run": ((LOOK, "test_a_tool_that_fails_stops_nothing_and_says_the_cure"),),
    "a-tool-that-hangs": (
        (SMI, "test_a_tool_that_hangs_is_an_error_when_its_time_is_over"),
        (SMI, "test_calls_that_nobody_waits_for_are_ended"),
    ),
    "cut-off-surplus-columns-header-alone-commas": (
        (INVENTORY, "test_a_failed_discovery_is_not_a_node_without_gpus"),
        (CARDS, "test_an_answer_in_an_unknown_form_is_an_error_even_with_exit_code_0"),
        (CARDS, "test_any_answer_gives_cards_or_an_error_and_never_an_exception"),
        (SMI, "test_output_that_is_cut_off_is_an_error"),
    ),
    "one-of-eight-is-sick-or-lost": (
        (CARDS, "test_any_other_cell_without_a_value_is_unknown_and_a_fault"),
        (CARDS, "test_a_lost_card_is_known_by_its_address_and_the_good_ones_survive"),
        (LOOK, "test_seven_of_eight_cards_are_usable_when_one_is_lost"),
    ),
    "ecc-and-row-remapping": (
        (HEALTH, "test_what_the_driver_says_becomes_words"),
        (CARDS, "test_what_a_card_does_not_support_is_unknown_and_no_fault"),
        (LOOK, "test_a_card_that_goes_bad_under_an_engine_is_flagged_and_the_engine_stays"),
    ),
    "classes-at-the-edges": (
        ("discovery/test_gpu_class.py", "test_the_class_is_the_short_model_and_the_drivers_gib"),
        ("discovery/test_gpu_class.py", "test_any_name_has_a_class_without_blanks"),
    ),
    "fewer-or-renumbered-cards-after-a-reboot": (
        (INVENTORY, "test_identity_is_the_uuid_whatever_the_order"),
        (LOOK, "test_engines_stay_with_their_cards_when_those_are_numbered_anew"),
    ),
    "mig-on-one-card": (
        (INVENTORY, "test_the_card_is_not_offered_and_its_slices_are"),
        ("placement/test_slices.py", "test_the_whole_card_is_refused_by_any_of_its_names"),
        ("placement/test_slices.py", "test_an_engine_on_one_gpu_may_ask_for_a_slice"),
    ),
    "memory-held-by-strangers": (
        (HEALTH, "test_a_foreign_process_with_64_mib_or_an_unknown_amount_is_a_problem"),
        (HEALTH, "test_memory_that_no_visible_process_explains_is_a_problem_above_the_threshold"),
        (INVENTORY, "test_a_process_of_another_pid_namespace_is_not_visible_and_in_the_way"),
        (INVENTORY, "test_cards_that_another_users_llmgw_gave_away_are_held_from_the_first_moment"),
    ),
    "no-adapters-or-unreadable-ones": (
        (PORTS, "test_a_node_without_the_class_directory_has_no_ports"),
        (PORTS, "test_files_that_are_missing_or_cannot_be_read_are_unknown"),
        (PORTS, "test_any_bytes_in_the_files_give_a_port"),
    ),
    "infiniband-and-roce-mixed": (
        (FABRIC, "test_one_fabric_is_chosen_or_the_reason_why_not"),
        (FABRIC, "test_a_fabric_is_of_usable_ports_of_one_kind_rate_and_subnet"),
    ),
    "bonds-virtual-functions-and-other-names": (
        (PORTS, "test_a_bond_is_told_by_the_interface_and_never_by_the_name"),
        (PORTS, "test_a_virtual_function_names_the_adapter_that_it_is_a_part_of"),
        (PORTS, "test_names_that_differ_only_in_letter_case_are_two_devices"),
    ),
    "cuda-is-told-which-cards-to-show": (
        (INVENTORY, "test_what_cuda_is_told_to_show_makes_no_difference"),
        ("engines/test_launch.py", "test_the_environment_of_vllm_is_exactly_this"),
    ),
    "a-plan-that-places-nothing-costs-two-calls": (
        (LOOK, "test_a_plan_that_places_nothing_costs_two_calls"),
        (LOOK, "test_a_group_that_must_be_placed_costs_the_topology_besides"),
    ),
}


def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("case", CASES)
def test_every_case_has_the_tests_that_it_names(case: str) -> None:
    assert {(file, name) for file, name in CASES[case] if name not in functions_of(file)} == set()
