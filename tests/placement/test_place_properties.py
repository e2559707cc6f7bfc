"""What holds for every node and every file: no card twice, nobody moved, the same answer to the same question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.model.desired import GpuRequest
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.place import Placed, Running, place
from tests.fakes.placed import A100, H100, a_node, a_spec, gpu

CARDS = st.builds(
    lambda card, problems: (card, problems),
    st.sampled_from([H100, A100]),
    st.sampled_from([(), (), (), ("2 uncorrected ECC errors",)]),
)


@st.composite
def nodes(draw: st.DrawFn) -> Inventory:
    cards = draw(st.lists(CARDS, min_size=1, max_size=8))
    return a_node(*(gpu(index, card, *problems) for index, (card, problems) in enumerate(cards)))


@st.composite
def files(draw: st.DrawFn) -> list[EngineSpec]:
    specs = []
    for number in range(draw(st.integers(1, 6))):
        size = draw(st.sampled_from([1, 1, 2, 4]))
        named = draw(st.one_of(st.none(), st.lists(st.integers(0, 8), min_size=size, max_size=size, unique=True)))
        wanted = draw(st.sampled_from([None, None, "h100-80g", "a100-80g"]))
        request = GpuRequest(gpu_class=wanted, ids=tuple(map(str, named or ())))
        specs.append(a_spec(f"m{number}", tensor_parallel_size=size, gpus=request))
    return specs


def ask(specs: list[EngineSpec], inventory: Inventory, running: dict[str, Running]) -> tuple[Placed, ...]:
    return place(
        specs,
        inventory,
        running,
        ports=(8000, 8003),
        cordon=("1",),
        busy_ports={8001},
        executables={spec.engine: "vllm" for spec in specs},
    )


def running_after(result: tuple[Placed, ...]) -> dict[str, Running]:
    return {
        r.spec.engine: Running(tuple(g.uuid or "" for g in r.placement.gpus), r.placement.port)
        for r in result
        if r.placement
    }


@given(files(), nodes())
def test_no_card_and_no_port_is_given_twice(specs: list[EngineSpec], inventory: Inventory) -> None:
    given_out = running_after(ask(specs, inventory, {})).values()
    cards = [uuid for engine in given_out for uuid in engine.gpus]
    ports = [engine.port for engine in given_out]
    assert len(cards) == len(set(cards))
    assert len(ports) == len(set(ports))


@given(files(), nodes())
def test_what_is_given_is_fit_of_one_class_and_as_many_as_needed(specs: list[EngineSpec], inventory: Inventory) -> None:
    for spec, placement, refusals in ask(specs, inventory, {}):
        assert (placement is None) == bool(refusals)
        if placement is not None:
            assert len(placement.gpus) == spec.model.tensor_parallel_size
            assert len({card.gpu_class for card in placement.gpus}) == 1
            assert all(card.is_healthy and card.index != 1 for card in placement.gpus)


@given(files(), nodes(), st.randoms(use_true_random=False))
def test_a_running_engine_is_never_moved(specs: list[EngineSpec], inventory: Inventory, random: object) -> None:
    """Not by other cards being sick now, not by newcomers, not by another order in the file."""
    running = running_after(ask(specs, inventory, {}))
    now_sick = a_node(*(_sick(card) for card in inventory.gpus))
    random.shuffle(specs)  # type: ignore[attr-defined]
    newcomers = [a_spec("new"), a_spec("large", tensor_parallel_size=4)]
    again = running_after(ask([*newcomers, *specs], now_sick, running))
    assert {engine: again[engine] for engine in running} == running
    taken = [uuid for engine in again.values() for uuid in engine.gpus]
    assert len(taken) == len(set(taken))


@given(files(), nodes())
def test_a_second_look_at_what_was_started_changes_nothing(specs: list[EngineSpec], inventory: Inventory) -> None:
    first = ask(specs, inventory, {})
    second = ask(specs, inventory, running_after(first))
    assert running_after(second) == running_after(first)
    assert [r.spec for r in second] == specs


@given(files(), nodes())
def test_the_order_in_which_cards_are_listed_changes_no_placement(
    specs: list[EngineSpec], inventory: Inventory
) -> None:
    turned = a_node(*reversed(inventory.gpus))
    assert running_after(ask(specs, inventory, {})) == running_after(ask(specs, turned, {}))


def _sick(card: Gpu) -> Gpu:
    return card._replace(health=card.health._replace(problems=("fell off the bus",)))
