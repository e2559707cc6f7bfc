"""Cards in MIG mode: their slices are given to who asks for one, the whole card to nobody."""

from __future__ import annotations

import pytest

from llmgw_reconcile.model.desired import GpuRequest
from llmgw_reconcile.model.gpu import GpuHealth, Mig, MigSlice
from llmgw_reconcile.placement.place import Placed, Running, place
from tests.fakes.placed import H100, a_node, a_spec, gpu

CLASS = "h100-mig-3g.40gb"
SPLIT = gpu(1, H100, "MIG mode is on: not offered as a whole")._replace(
    mig=Mig(
        enabled=True,
        slices=(
            MigSlice("MIG-a", "3g.40gb", 40448, CLASS),
            MigSlice("MIG-b", "3g.40gb", 40448, CLASS, problems=("300 MiB held by pid 7",)),
            MigSlice("MIG-c", "1g.10gb", 9984, "h100-mig-1g.10gb"),
        ),
    )
)
NODE = a_node(gpu(0), SPLIT)


def placed(*specs, running=None, cordon=()) -> tuple[Placed, ...]:
    executables = {spec.engine: "/opt/v/bin/vllm" for spec in specs}
    return place(specs, NODE, running or {}, ports=(8000, 8099), cordon=cordon, busy_ports=(), executables=executables)


def uuids(result):
    return [[card.uuid for card in one.placement.gpus] if one.placement else None for one in result]


@pytest.mark.parametrize(
    ("request_", "uuid"),
    [
        pytest.param(GpuRequest(gpu_class=CLASS), "MIG-a", id="by-class"),
        pytest.param(GpuRequest(ids=("MIG-c",)), "MIG-c", id="by-uuid"),
        pytest.param(GpuRequest(), "GPU-0", id="who-asks-for-none-gets-a-whole-card"),
    ],
)
def test_an_engine_on_one_gpu_may_ask_for_a_slice(request_, uuid):
    assert uuids(placed(a_spec(gpus=request_))) == [[uuid]]


def test_a_slice_keeps_its_engine():
    specs = [a_spec("a", gpus=GpuRequest(gpu_class=CLASS)), a_spec("b", gpus=GpuRequest(gpu_class="h100-mig-1g.10gb"))]
    assert uuids(placed(*specs, running={"a@0": Running(("MIG-b",), 8001)})) == [["MIG-b"], ["MIG-c"]]


def test_whoever_asks_for_none_gets_none_when_whole_cards_are_out():
    first, second = placed(a_spec("a"), a_spec("b"))
    assert uuids((first, second)) == [["GPU-0"], None]
    (refusal,) = second.refusals
    assert "GPU at MIG-a (h100-mig-3g.40gb): a MIG slice is given to whoever asks for it" in refusal.message


def test_a_group_cannot_be_made_of_slices():
    (refused,) = placed(a_spec(tensor_parallel_size=2, gpus=GpuRequest(gpu_class=CLASS)))
    assert "a MIG slice is for an engine on one GPU" in refused.refusals[0].message


@pytest.mark.parametrize("name", ["GPU-1", "1", "11:00.0"])
def test_the_whole_card_is_refused_by_any_of_its_names(name):
    (refused,) = placed(a_spec(gpus=GpuRequest(ids=(name,))))
    assert refused.refusals[0].message.startswith("GPU 1 (h100-80g): MIG mode is on")


def test_a_slice_that_is_held_or_taken_is_refused_with_its_reason():
    specs = [a_spec(name, gpus=GpuRequest(gpu_class=CLASS)) for name in ("a", "b")]
    message = placed(*specs)[1].refusals[0].message
    assert "GPU at MIG-a (h100-mig-3g.40gb): given to a@0" in message
    assert "GPU at MIG-b (h100-mig-3g.40gb): 300 MiB held by pid 7" in message


@pytest.mark.parametrize("cordon", ["GPU-1", "MIG-c"])
def test_a_cordon_keeps_a_slice_or_all_of_a_card_from_being_given_out(cordon):
    (refused,) = placed(a_spec(gpus=GpuRequest(ids=("MIG-c",))), cordon=(cordon,))
    assert "cordoned by the state file" in refused.refusals[0].message


def test_a_misspelt_class_gets_the_one_that_was_meant():
    (refused,) = placed(a_spec(gpus=GpuRequest(gpu_class="h100-mig-3g40gb")))
    assert refused.refusals[0].hint == f"did you mean {CLASS}?"


def test_slices_share_the_health_of_their_card_and_nothing_of_its_place():
    part = SPLIT._replace(health=GpuHealth(0, 40, ("x",), ("it is hot",))).parts[0]
    assert (part.is_slice, SPLIT.is_slice, part.index, part.pci_bus_id) == (True, False, None, None)
    assert (part.health.warnings, part.is_healthy, part.nvlink_peers) == (("it is hot",), True, ())
