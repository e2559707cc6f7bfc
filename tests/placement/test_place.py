"""Which engine gets which cards and which port, and what it is told when it gets none."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import Device, EngineKind, GpuRequest
from llmgw_reconcile.model.gpu import Gpu, Holder, Mig
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.place import Placed, Running, place
from tests.fakes.placed import A100, H100, L40S, T4, a_node, a_spec, gpu, h100s

UNREADABLE = Inventory(
    node="gpu-07",
    source="nvidia-smi",
    problems=(Diagnostic(Severity.ERROR, "nvidia-smi-failed", "nvidia-smi", "exit 18"),),
)


def placed(specs: list[EngineSpec], inventory: Inventory, **world: Any) -> tuple[Placed, ...]:
    given = {
        "running": {},
        "ports": (8000, 8099),
        "cordon": (),
        "busy_ports": (),
        "executables": {spec.engine: "/opt/v/bin/vllm" for spec in specs},
        **world,
    }
    return place(specs, inventory, given.pop("running"), **given)


def uuids(result: tuple[Placed, ...]) -> dict[str, list[str | None] | None]:
    """Engine -> its cards; None when it was refused."""
    return {r.spec.engine: [g.uuid for g in r.placement.gpus] if r.placement else None for r in result}


def refusal(result: tuple[Placed, ...], engine: str = "chat@0") -> Diagnostic:
    """The only refusal of an engine."""
    (found,) = next(r.refusals for r in result if r.spec.engine == engine)
    assert (found.severity, found.where) == (Severity.ERROR, engine)
    return found


# ---- who gets what ----


def test_engines_take_cards_in_the_order_of_the_bus_and_none_twice() -> None:
    specs = [a_spec("a", tensor_parallel_size=4), a_spec("b", tensor_parallel_size=2), a_spec("c")]
    assert uuids(placed(specs, h100s(8))) == {
        "a@0": ["GPU-0", "GPU-1", "GPU-2", "GPU-3"],
        "b@0": ["GPU-4", "GPU-5"],
        "c@0": ["GPU-6"],
    }


def test_an_engine_needs_the_product_of_its_sizes() -> None:
    spec = a_spec(tensor_parallel_size=2, pipeline_parallel_size=2, data_parallel_size=2)
    assert len(uuids(placed([spec], h100s(8)))["chat@0"] or ()) == 8


def test_llama_cpp_gets_as_many_cards_as_it_counts() -> None:
    llama = {"engine": EngineKind.LLAMA_CPP, "model": "/models/m.gguf"}
    specs = [a_spec("a", gpus=GpuRequest(count=2), **llama), a_spec(gpus=GpuRequest(count=3), **llama)]
    result = placed(specs, h100s(4))
    assert uuids(result) == {"a@0": ["GPU-0", "GPU-1"], "chat@0": None}
    assert refusal(result).message.startswith("needs 3 GPUs (gpus.count 3), this node has 4, 2 of them free: ")


def test_an_engine_on_the_cpu_needs_no_card_and_no_list_of_cards() -> None:
    spec = a_spec(device=Device.CPU, tensor_parallel_size=2)
    assert uuids(placed([spec], UNREADABLE)) == {"chat@0": []}


def test_those_named_first_win_when_not_all_fit() -> None:
    specs = [a_spec("a", tensor_parallel_size=8), a_spec("b")]
    assert uuids(placed(specs, h100s(8))) == {"a@0": [f"GPU-{n}" for n in range(8)], "b@0": None}
    assert uuids(placed(specs[::-1], h100s(8))) == {"b@0": ["GPU-0"], "a@0": None}


def test_a_refused_engine_takes_nothing_from_those_behind_it() -> None:
    specs = [a_spec("a", tensor_parallel_size=16), a_spec("b")]
    assert uuids(placed(specs, h100s(8))) == {"a@0": None, "b@0": ["GPU-0"]}


def test_the_most_capable_class_is_taken_first_and_never_mixed() -> None:
    node = a_node(gpu(0, T4), gpu(1, A100), gpu(2, A100), gpu(3, L40S), gpu(4, H100))
    specs = [a_spec("a"), a_spec("b"), a_spec("c", tensor_parallel_size=2)]
    assert uuids(placed(specs, node)) == {"a@0": ["GPU-4"], "b@0": ["GPU-3"], "c@0": ["GPU-1", "GPU-2"]}


def test_a_class_that_is_asked_for_is_the_one_that_is_given() -> None:
    node = a_node(gpu(0, H100), gpu(1, A100))
    assert uuids(placed([a_spec(gpus=GpuRequest(gpu_class="a100-80g"))], node)) == {"chat@0": ["GPU-1"]}


def test_named_cards_are_given_in_the_order_of_the_file_to_each_replica_in_turn() -> None:
    ids = ("0000:13:00.0", "GPU-1", "0", "2")
    specs = [
        a_spec(replica=0, replicas=2, tensor_parallel_size=2, gpus=GpuRequest(ids=ids)),
        a_spec(replica=1, replicas=2, tensor_parallel_size=2, gpus=GpuRequest(ids=ids)),
    ]
    assert uuids(placed(specs, h100s(4))) == {"chat@0": ["GPU-3", "GPU-1"], "chat@1": ["GPU-0", "GPU-2"]}


def test_a_card_that_another_engine_names_is_left_to_it_where_there_are_others() -> None:
    specs = [a_spec("a"), a_spec("b", gpus=GpuRequest(ids=("0",)))]
    assert uuids(placed(specs, h100s(2))) == {"a@0": ["GPU-1"], "b@0": ["GPU-0"]}
    assert uuids(placed(specs, h100s(1))) == {"a@0": ["GPU-0"], "b@0": None}


# ---- what runs ----


def test_a_running_engine_keeps_its_cards_and_new_ones_go_round_it() -> None:
    specs = [a_spec("a"), a_spec("b", tensor_parallel_size=2)]
    running = {"b@0": Running(("GPU-2", "GPU-0"), 8001)}
    assert uuids(placed(specs, h100s(4), running=running)) == {"a@0": ["GPU-1"], "b@0": ["GPU-2", "GPU-0"]}


@pytest.mark.parametrize(
    ("inventory", "cordon"),
    [
        pytest.param(a_node(gpu(0), gpu(1, H100, "2 uncorrected ECC errors")), (), id="unhealthy"),
        pytest.param(a_node(gpu(0), gpu(1, mig=Mig(enabled=True))), (), id="in-mig-mode"),
        pytest.param(h100s(2), ("1",), id="cordoned"),
        pytest.param(h100s(1), (), id="vanished"),
        pytest.param(UNREADABLE, (), id="not-readable"),
    ],
)
def test_a_running_engine_stays_on_a_card_that_is_unfit_by_now(inventory: Inventory, cordon: tuple[str, ...]) -> None:
    running = {"chat@0": Running(("GPU-1",), 8000)}
    assert uuids(placed([a_spec()], inventory, running=running, cordon=cordon)) == {"chat@0": ["GPU-1"]}


def test_a_card_that_is_not_listed_any_more_is_of_unknown_class() -> None:
    (result,) = placed([a_spec()], UNREADABLE, running={"chat@0": Running(("GPU-9",), 8000)})
    assert result.placement is not None
    assert result.placement.gpus == (Gpu(index=None, uuid="GPU-9", name=None, gpu_class="unknown"),)


def test_an_engine_that_grows_keeps_what_it_has_and_takes_more() -> None:
    specs = [a_spec("new"), a_spec("grown", tensor_parallel_size=4)]
    running = {"grown@0": Running(("GPU-3", "GPU-2"), 8000)}
    assert uuids(placed(specs, h100s(8), running=running)) == {
        "grown@0": ["GPU-2", "GPU-3", "GPU-0", "GPU-1"],
        "new@0": ["GPU-4"],
    }


def test_an_engine_that_shrinks_leaves_the_rest_to_others() -> None:
    specs = [a_spec("new", tensor_parallel_size=2), a_spec("shrunk", tensor_parallel_size=2)]
    running = {"shrunk@0": Running(("GPU-0", "GPU-1", "GPU-2", "GPU-3"), 8000)}
    assert uuids(placed(specs, h100s(4), running=running)) == {
        "shrunk@0": ["GPU-0", "GPU-1"],
        "new@0": ["GPU-2", "GPU-3"],
    }


def test_an_engine_that_grows_stays_with_its_class() -> None:
    node = a_node(*(gpu(n, A100) for n in range(2)), *(gpu(n, H100) for n in range(2, 4)))
    running = {"chat@0": Running(("GPU-1",), 8000)}
    assert uuids(placed([a_spec(tensor_parallel_size=2)], node, running=running)) == {"chat@0": ["GPU-1", "GPU-0"]}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(GpuRequest(ids=("1",)), ["GPU-1"], id="other-cards-by-name"),
        pytest.param(GpuRequest(gpu_class="a100-80g"), ["GPU-2"], id="another-class"),
        pytest.param(GpuRequest(ids=("0000:10:00.0",)), ["GPU-0"], id="the-same-card-by-another-name"),
        pytest.param(GpuRequest(ids=("7",)), ["GPU-0"], id="a-card-that-is-not-there-moves-nobody"),
    ],
)
def test_a_running_engine_moves_only_when_its_spec_asks_for_other_cards(
    request_: GpuRequest, expected: list[str]
) -> None:
    node = a_node(gpu(0), gpu(1), gpu(2, A100))
    running = {"chat@0": Running(("GPU-0",), 8000)}
    assert uuids(placed([a_spec(gpus=request_)], node, running=running)) == {"chat@0": expected}


def test_an_engine_that_cannot_move_keeps_its_cards_from_the_others() -> None:
    specs = [a_spec("big", tensor_parallel_size=16), a_spec("new", tensor_parallel_size=2)]
    result = placed(specs, h100s(4), running={"big@0": Running(("GPU-0", "GPU-1"), 8000)})
    assert uuids(result) == {"big@0": None, "new@0": ["GPU-2", "GPU-3"]}


def test_the_cards_of_an_engine_that_the_file_no_longer_names_are_free() -> None:
    running = {"gone@0": Running(("GPU-0",), 8000)}
    assert uuids(placed([a_spec()], h100s(1), running=running)) == {"chat@0": ["GPU-0"]}


def test_others_are_placed_round_an_engine_that_is_kept_as_it_runs() -> None:
    specs = [a_spec("new"), a_spec("shrunk"), a_spec("grown", tensor_parallel_size=16)]
    running = {
        "shrunk@0": Running(("GPU-0", "GPU-1"), 8000),
        "grown@0": Running(("GPU-2",), 8001),
        "unnamed@0": Running(("GPU-3",), 8002),
    }
    result = placed(specs, h100s(5), running=running, kept={"shrunk@0", "grown@0", "unnamed@0"})
    assert uuids(result) == {"new@0": ["GPU-4"], "shrunk@0": ["GPU-0"], "grown@0": None}
    assert refusal(result, "grown@0").code == "not-enough-gpus"


# ---- refusals ----


def test_too_large_a_group_is_refused_with_the_arithmetic() -> None:
    found = refusal(placed([a_spec(tensor_parallel_size=16)], h100s(8)))
    assert (found.code, found.message) == (
        "not-enough-gpus",
        "needs 16 GPUs (tensor_parallel_size 16), this node has 8",
    )


def test_a_refusal_names_each_card_that_is_out_and_why() -> None:
    stranger = Holder(pid=4121, user="alice", command="python train.py", memory_mb=61190)
    node = a_node(
        gpu(0),
        gpu(1, H100, "2 uncorrected ECC errors"),
        gpu(2, H100, "61190 MiB held by pid 4121 python train.py of alice", holders=(stranger,)),
        gpu(3, mig=Mig(enabled=True)),
        gpu(4),
        gpu(5),
        Gpu(index=None, uuid=None, name=None, gpu_class="unknown", pci_bus_id="00000000:16:00.0"),
    )
    specs = [a_spec("a"), a_spec(tensor_parallel_size=4, pipeline_parallel_size=2)]
    found = refusal(placed(specs, node, cordon=("0000:15:00.0",), running={"a@0": Running(("GPU-4",), 8000)}))
    assert found.code == "not-enough-gpus"
    assert found.message == (
        "needs 8 GPUs (tensor_parallel_size 4 x pipeline_parallel_size 2), this node has 7, 1 of them free: "
        "GPU 1 (h100-80g): 2 uncorrected ECC errors; "
        "GPU 2 (h100-80g): 61190 MiB held by pid 4121 python train.py of alice; "
        "GPU 3 (h100-80g): in MIG mode, no longer one whole card; "
        "GPU 4 (h100-80g): given to a@0; "
        "GPU 5 (h100-80g): cordoned by the state file; "
        "GPU at 00000000:16:00.0 (unknown): it has no UUID to name it by"
    )
    assert found.hint == "to use a card in spite of its health: `accept: [gpu-health:GPU-1]`"


def test_a_group_that_only_fits_over_two_classes_is_refused_with_both() -> None:
    found = refusal(placed([a_spec(tensor_parallel_size=2)], a_node(gpu(0, A100), gpu(1, H100))))
    assert (found.code, found.message) == (
        "mixed-gpu-classes",
        "needs 2 GPUs (tensor_parallel_size 2), all of one class; free are 1 h100-80g, 1 a100-80g",
    )


def test_a_class_that_is_too_small_is_refused_with_the_other_cards() -> None:
    spec = a_spec(tensor_parallel_size=2, gpus=GpuRequest(gpu_class="a100-80g"))
    found = refusal(placed([spec], a_node(gpu(0, A100), gpu(1, H100))))
    assert found.code == "not-enough-gpus"
    assert found.message == (
        "needs 2 GPUs (tensor_parallel_size 2) of class a100-80g, this node has 2, 1 of them free: "
        "GPU 1 (h100-80g): not of class a100-80g"
    )


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [("h100-80gb", "did you mean h100-80g?"), ("mi300x-192g", "it has a100-80g, h100-80g")],
)
def test_an_unknown_class_is_refused_with_those_that_there_are(wanted: str, hint: str) -> None:
    found = refusal(placed([a_spec(gpus=GpuRequest(gpu_class=wanted))], a_node(gpu(0, H100), gpu(1, A100))))
    assert (found.code, found.message, found.hint) == (
        "unknown-gpu-class",
        f"this node has no GPU of class {wanted}",
        hint,
    )


def test_each_named_card_that_cannot_be_given_is_named() -> None:
    node = a_node(gpu(0), gpu(1, H100, "2 uncorrected ECC errors"), gpu(2, A100))
    spec = a_spec(tensor_parallel_size=4, gpus=GpuRequest(ids=("0", "GPU-1", "9", "0000:12:00.0")))
    (result,) = placed([spec], node)
    assert [(r.code, r.message) for r in result.refusals] == [
        ("gpu-unavailable", "9: this node has no such GPU; GPU 1 (h100-80g): 2 uncorrected ECC errors"),
        (
            "mixed-gpu-classes",
            "needs 4 GPUs (tensor_parallel_size 4), all of one class; gpus.ids names 2 h100-80g, 1 a100-80g",
        ),
    ]


def test_one_card_under_two_names_is_refused() -> None:
    spec = a_spec(tensor_parallel_size=2, gpus=GpuRequest(ids=("0", "GPU-0")))
    assert refusal(placed([spec], h100s(2))).message == "GPU 0 (h100-80g): named twice"


def test_a_node_without_cards_says_how_to_plan_without_them() -> None:
    found = refusal(placed([a_spec()], Inventory(node="laptop", source="none")))
    assert (found.code, found.message) == ("no-gpus", "needs 1 GPU, this node has none")
    assert "llmgw plan STATE --from SNAPSHOT.json" in found.hint


def test_cards_that_could_not_be_read_are_not_given_out() -> None:
    specs = [a_spec("runs"), a_spec("new"), a_spec("grown", tensor_parallel_size=2)]
    running = {"runs@0": Running(("GPU-0",), 8000), "grown@0": Running(("GPU-1",), 8001)}
    result = placed(specs, UNREADABLE, running=running)
    assert uuids(result) == {"runs@0": ["GPU-0"], "new@0": None, "grown@0": None}
    assert refusal(result, "new@0").code == refusal(result, "grown@0").code == "gpus-unknown"


def test_a_card_whose_health_is_accepted_is_given_after_the_healthy_ones() -> None:
    node = a_node(gpu(0, H100, "2 uncorrected ECC errors"), gpu(1))
    one, two = a_spec(accept=("gpu-health:GPU-0",)), a_spec(tensor_parallel_size=2, accept=("gpu-health:gpu-0",))
    assert uuids(placed([one], node)) == {"chat@0": ["GPU-1"]}
    assert uuids(placed([two], node)) == {"chat@0": ["GPU-1", "GPU-0"]}


def test_a_card_that_a_stranger_holds_cannot_be_accepted() -> None:
    node = a_node(gpu(0, H100, "61190 MiB held by pid 7 python", holders=(Holder(pid=7),)))
    found = refusal(placed([a_spec(accept=("gpu-health:GPU-0",))], node))
    assert "held by pid 7" in found.message
    assert found.hint == ""


# ---- ports ----


def ports(result: tuple[Placed, ...]) -> dict[str, int | None]:
    return {r.spec.engine: r.placement.port if r.placement else None for r in result}


def test_engines_without_a_port_get_the_first_that_nobody_has_or_names() -> None:
    specs = [a_spec("a"), a_spec("b", port=8001), a_spec("c"), a_spec("d")]
    result = placed(specs, h100s(8), ports=(8000, 8009), busy_ports={8002, 8003})
    assert ports(result) == {"a@0": 8000, "b@0": 8001, "c@0": 8004, "d@0": 8005}


def test_a_running_engine_keeps_its_port_even_outside_the_range() -> None:
    specs = [a_spec("a"), a_spec("b")]
    running = {"b@0": Running(("GPU-0",), 9000)}
    result = placed(specs, h100s(8), running=running, ports=(8000, 8000), busy_ports={9000})
    assert ports(result) == {"a@0": 8000, "b@0": 9000}


def test_the_port_of_the_file_decides_and_the_old_one_is_not_given_away_yet() -> None:
    specs = [a_spec("a", port=8005), a_spec("b")]
    running = {"a@0": Running(("GPU-0",), 8000)}
    assert ports(placed(specs, h100s(8), running=running)) == {"a@0": 8005, "b@0": 8001}


def test_a_port_that_a_running_engine_was_given_is_not_taken_from_it() -> None:
    specs = [a_spec("a", port=8000), a_spec("b")]
    result = placed(specs, h100s(8), running={"b@0": Running(("GPU-0",), 8000)})
    assert ports(result) == {"a@0": None, "b@0": 8000}
    assert refusal(result, "a@0").message == (
        "port 8000 belongs to b@0, which runs on it and asks for no port of its own"
    )


def test_two_engines_may_swap_their_ports() -> None:
    specs = [a_spec("a", port=8001), a_spec("b", port=8000)]
    running = {"a@0": Running(("GPU-0",), 8000), "b@0": Running(("GPU-1",), 8001)}
    assert ports(placed(specs, h100s(2), running=running)) == {"a@0": 8001, "b@0": 8000}


def test_no_port_left_is_a_refusal_and_an_engine_without_cards_uses_none_up() -> None:
    specs = [a_spec("big", tensor_parallel_size=16), a_spec("a"), a_spec("b")]
    result = placed(specs, h100s(8), ports=(8000, 8000))
    assert ports(result) == {"big@0": None, "a@0": 8000, "b@0": None}
    found = refusal(result, "b@0")
    assert (found.code, found.message) == ("no-free-port", "no port is left: each of 8000-8000 is given away or busy")


def test_all_refusals_of_an_engine_are_told_at_once() -> None:
    specs = [a_spec("a", port=8000, tensor_parallel_size=16), a_spec("b")]
    result = placed(specs, h100s(8), running={"b@0": Running(("GPU-0",), 8000)})
    assert [r.code for r in result[0].refusals] == ["not-enough-gpus", "port-taken"]
