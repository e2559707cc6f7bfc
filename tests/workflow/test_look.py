"""How often a plan calls nvidia-smi: that is what it costs on a real node."""

from __future__ import annotations

import pytest

from tests.fakes.nvidia_smi import h100, lost_card, mig_slice, slice_uuid, uuid_of

TWO = ["--query-compute-apps", "--query-gpu"]
SPLIT = h100(1, mig_mode_current="Enabled")
SLICES = {uuid_of(1): [mig_slice("3g.40gb", 0, 40448)]}


def calls_of(node, state, *cards, code=0, **description):
    """The first words of what one plan asks."""
    calls = node.root / "calls"
    node.gpus(*(cards or map(h100, range(4))), calls=str(calls), **description)
    result = node.llmgw("plan", state, code=code)
    return sorted(line.split(" ")[0].partition("=")[0] for line in calls.read_text().splitlines()), result


def test_a_plan_that_places_nothing_costs_two_calls(node):
    state = node.state(node.model("one"), node.model("two", tensor_parallel_size=2))
    node.apply(state)
    calls, result = calls_of(node, state)
    assert calls == TWO
    assert result.text.startswith("No changes.")


def test_a_plan_that_places_single_engines_costs_no_more(node):
    assert calls_of(node, node.state(node.model(), node.model("two")))[0] == TWO


def test_a_group_that_must_be_placed_costs_the_topology_besides(node):
    assert calls_of(node, node.state(node.model(tensor_parallel_size=2)))[0] == [*TWO, "topo"]


@pytest.mark.parametrize("gpus", [{"class": "h100-mig-3g.40gb"}, {"ids": [slice_uuid(0)]}], ids=["by-class", "by-uuid"])
def test_a_slice_is_found_where_one_is_asked_for(node, gpus):
    state = node.state(node.model(gpus=gpus))
    calls, result = calls_of(node, state, h100(0), SPLIT, slices=SLICES)
    assert calls == ["", *TWO, "-L"]
    assert "1 to start" in result.text


def test_slices_are_not_looked_for_where_nobody_asks(node):
    calls, result = calls_of(node, node.state(node.model()), h100(0), SPLIT, slices=SLICES)
    assert calls == TWO
    assert "1 to start" in result.text


def test_a_plan_of_cpu_engines_calls_nothing(node):
    state = node.state(node.model(device="cpu"))
    calls = node.root / "calls"
    node.gpus(h100(0), calls=str(calls))
    node.llmgw("plan", state)
    assert not calls.exists()


MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.144\n"


BROKEN = {
    "mismatch": ({"replies": {"": {"text": MISMATCH, "code": 18}}}, "exit code 18: Failed to initialize"),
    "no-devices": ({"replies": {"": {"text": "No devices were found\n", "code": 6}}}, "exit code 6: No devices"),
    "no-driver": ({"replies": {"": {"text": "has failed\n", "code": 9}}}, "modprobe nvidia"),
    "off-the-bus": ({"replies": {"": {"text": "GPU is lost\n", "code": 15}}}, "fallen off the bus"),
    "driver-error": ({"replies": {"": {"text": "", "code": 255}}}, "exit code 255: nothing was printed"),
    "silent": ({"replies": {"": {"text": "", "code": 0}}}, "exit code 0: nothing was printed"),
    "cut-off": ({"cut": 700}, "cut off"),
}


def test_a_tool_that_fails_stops_nothing_and_says_the_cure(node):
    state = node.state(node.model())
    node.apply(state)
    before = node.engine()
    for description, words in BROKEN.values():
        node.gpus(*map(h100, range(4)), **description)
        plan = node.llmgw("plan", state, "-o", "json", code=1).json()
        assert [action["action"] for action in plan["actions"]] == ["keep"]
        assert words in str(plan["diagnostics"])
        (engine,) = node.llmgw("status", "-o", "json", code=None).json()["engines"]
        assert engine == before
    node.llmgw("apply", state, "-y", code=1)
    node.gpus(*map(h100, range(4)))
    assert node.engine() == before


def test_a_card_that_goes_bad_under_an_engine_is_flagged_and_the_engine_stays(node):
    state = node.state(node.model())
    node.apply(state)
    node.gpus(h100(0, ecc_errors_uncorrected_volatile_total=2), h100(1))
    assert node.llmgw("plan", state).text.startswith("No changes.")
    assert "2 uncorrected ECC errors" in node.llmgw("agent", "inventory").text


def test_engines_stay_with_their_cards_when_those_are_numbered_anew(node):
    state = node.state(node.model("one"), node.model("two"))
    node.apply(state)
    node.gpus(h100(1) | {"index": 0}, h100(0) | {"index": 1})
    assert node.llmgw("plan", state).text.startswith("No changes.")


def test_an_index_in_the_file_is_bound_to_the_card_that_it_named_first(node):
    state = node.state(node.model(gpus={"ids": ["0"]}))
    node.apply(state)
    node.gpus(h100(1) | {"index": 0}, h100(0) | {"index": 1})
    before = node.engine()
    for stopped in (False, True):
        if stopped:
            node.llmgw("stop", "chat")
        plan = node.llmgw("plan", state, "-o", "json", code=1).json()
        assert [action["action"] for action in plan["actions"]] == ["blocked"]
        assert f"index 0 was {uuid_of(0)} when the engine was started, and is {uuid_of(1)} now" in str(plan)
        assert stopped or node.engine() == before


def test_seven_of_eight_cards_are_usable_when_one_is_lost(node):
    cards = [h100(index) for index in range(8)]
    cards[3] = lost_card("0000:13:00.0")
    node.gpus(*cards, code=255)
    state = node.state(*(node.model(f"m{number}") for number in range(8)))
    result = node.llmgw("plan", state, code=1)
    assert "7 to start" in result.text
    assert "GPU at 0000:13:00.0" in result.text
