"""What holds for every node and every file: no card twice, nobody moved, the same answer to the same question."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.model.desired import GpuRequest
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement import feasible, search
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
    for spec, placement, refusals, _ in ask(specs, inventory, {}):
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


# ---- whoever fits is placed ----


@st.composite
def small_nodes(draw: st.DrawFn) -> Inventory:
    """Up to five cards, some of them sick, some in pairs, in one or two NUMA nodes."""
    cards = draw(st.lists(CARDS, min_size=1, max_size=5))
    pairs = draw(st.sampled_from([None, (), ((0, 1),), ((0, 2), (1, 3))]))
    numa = draw(st.sampled_from(["00000", "00011", "?????"]))
    made = (
        gpu(index, card, *problems, numa_node=None if numa[index] == "?" else int(numa[index]))
        for index, (card, problems) in enumerate(cards)
    )
    return a_node(*made, nvlink_domains=pairs)


@st.composite
def small_files(draw: st.DrawFn) -> list[EngineSpec]:
    """Up to five engines that name cards or classes, or accept the health of some."""
    specs = []
    for number in range(draw(st.integers(1, 5))):
        size = draw(st.sampled_from([1, 1, 2, 3]))
        named = draw(st.sampled_from([(), (), draw(st.permutations(range(5)))[:size]]))
        wanted = draw(st.sampled_from([None, None, None, "h100-80g", "a100-80g"]))
        accept = tuple(f"gpu-health:GPU-{card}" for card in draw(st.sets(st.integers(0, 4), max_size=3)))
        request = GpuRequest(gpu_class=wanted, ids=tuple(map(str, named)))
        specs.append(a_spec(f"m{number}", tensor_parallel_size=size, gpus=request, accept=accept))
    return specs


def ways(spec: EngineSpec, inventory: Inventory) -> list[frozenset[str]]:
    """Every set of cards that the engine could run on; GPU-1 is cordoned in `ask`."""
    fit = [
        card
        for card in inventory.gpus
        if card.index != 1
        and (card.is_healthy or f"gpu-health:{card.uuid}" in spec.model.accept)
        and spec.model.gpus.gpu_class in (None, card.gpu_class)
        and (not spec.gpu_ids or str(card.index) in spec.gpu_ids)
    ]
    groups = combinations(fit, spec.model.gpus_per_replica)
    return [frozenset(c.uuid or "" for c in group) for group in groups if len({c.gpu_class for c in group}) == 1]


def can_all_run(specs: list[EngineSpec], inventory: Inventory, out: frozenset[str] = frozenset()) -> bool:
    if not specs:
        return True
    first, *rest = specs
    return any(can_all_run(rest, inventory, out | way) for way in ways(first, inventory) if not way & out)


def ask_for_cards(specs: list[EngineSpec], inventory: Inventory, running: dict[str, Running]) -> tuple[Placed, ...]:
    return place(
        specs,
        inventory,
        running,
        ports=(8000, 8099),
        cordon=("1",),
        busy_ports=(),
        executables={spec.engine: "vllm" for spec in specs},
    )


@given(small_files(), small_nodes())
def test_an_engine_is_refused_only_if_no_assignment_serves_it_besides_those_before_it(
    specs: list[EngineSpec], inventory: Inventory
) -> None:
    accepted: list[EngineSpec] = []
    for one in ask_for_cards(specs, inventory, {}):
        fits = can_all_run([*accepted, one.spec], inventory)
        assert (one.placement is not None) == fits
        accepted += [one.spec] if fits else []


@given(small_files(), small_nodes())
def test_what_each_is_given_is_one_of_its_ways_and_nobody_elses(specs: list[EngineSpec], inventory: Inventory) -> None:
    out: set[str] = set()
    for one in ask_for_cards(specs, inventory, {}):
        if one.placement is not None:
            cards = {card.uuid or "" for card in one.placement.gpus}
            assert cards in ways(one.spec, inventory)
            assert out.isdisjoint(cards)
            out |= cards


@given(small_files(), small_nodes(), st.randoms(use_true_random=False))
def test_the_order_in_the_file_decides_only_who_wins_where_not_all_fit(
    specs: list[EngineSpec], inventory: Inventory, random: object
) -> None:
    turned = list(specs)
    random.shuffle(turned)  # type: ignore[attr-defined]
    if all(one.placement for one in ask_for_cards(specs, inventory, {})):
        assert all(one.placement for one in ask_for_cards(turned, inventory, {}))


@given(small_files(), small_nodes(), small_files())
def test_an_engine_that_has_to_move_is_refused_only_if_it_cannot(
    specs: list[EngineSpec], inventory: Inventory, before: list[EngineSpec]
) -> None:
    """Whoever was refused could not move alone either, with all the others where they are now or get to."""
    running = running_after(ask_for_cards(before, inventory, {}))
    running = {engine: now for engine, now in running.items() if any(spec.engine == engine for spec in specs)}
    result = ask_for_cards(specs, inventory, running)
    now = running_after(result)
    cards = {engine: frozenset((now.get(engine) or running[engine]).gpus) for engine in now.keys() | running.keys()}
    assert sum(map(len, cards.values())) == len(frozenset().union(*cards.values()))
    for one in result:
        if one.placement is None and one.spec.engine in running:
            others = [held for engine, held in cards.items() if engine != one.spec.engine and engine in running]
            assert not can_all_run([one.spec], inventory, frozenset().union(*others))


@given(small_files(), small_nodes(), small_files(), st.integers(0, 6), st.integers(0, 1))
def test_a_search_that_ends_at_its_bound_refuses_and_gives_nothing_twice(
    specs: list[EngineSpec], inventory: Inventory, before: list[EngineSpec], steps: int, tries: int
) -> None:
    running = running_after(ask_for_cards(before, inventory, {}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feasible, "MOST_STEPS", steps)
        patch.setattr(search, "MOST_TRIES", tries)
        result = ask_for_cards(specs, inventory, running)
    now = running_after(result)
    held = {engine: one for engine, one in running.items() if any(spec.engine == engine for spec in specs)}
    cards = [uuid for one in (held | now).values() for uuid in one.gpus]
    assert len(cards) == len(set(cards))
    assert all((one.placement is None) == bool(one.refusals) for one in result)


def _sick(card: Gpu) -> Gpu:
    return card._replace(health=card.health._replace(problems=("fell off the bus",)))
