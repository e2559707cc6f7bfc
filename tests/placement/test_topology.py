"""Which cards a group gets by how they are connected, and which ones others are left with."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.desired import GpuRequest
from llmgw_reconcile.model.gpu import GpuLink, PcieLink
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.spec import EngineSpec
from llmgw_reconcile.placement.closeness import Closeness, closeness
from llmgw_reconcile.placement.place import Placed, Running, place
from tests.fakes.placed import H100, L40S, a_node, a_spec, gpu, h100s

Numbers = tuple[int, ...]


def board(numa: str, *, cliques: Iterable[Numbers] | None = (), switches: Iterable[Numbers] = ()) -> Inventory:
    """Cards with the NUMA nodes of these digits, `?` where it is not known."""
    near = {one: set(switch) - {one} for switch in switches for one in switch}
    cards = [
        gpu(
            index,
            L40S,
            numa_node=None if digit == "?" else int(digit),
            links=tuple(
                GpuLink(other, pcie=PcieLink.PIX if other in near.get(index, ()) else PcieLink.NODE)
                for other in range(len(numa))
                if other != index
            ),
        )
        for index, digit in enumerate(numa)
    ]
    return a_node(*cards, nvlink_domains=None if cliques is None else tuple(cliques))


def placed(
    specs: list[EngineSpec], inventory: Inventory, running: dict[str, Numbers] | None = None
) -> tuple[Placed, ...]:
    held = {
        engine: Running(tuple(f"GPU-{card}" for card in cards), 9000 + number)
        for number, (engine, cards) in enumerate((running or {}).items())
    }
    executables = {spec.engine: "/opt/v/bin/vllm" for spec in specs}
    return place(specs, inventory, held, ports=(8000, 8099), cordon=(), busy_ports=(), executables=executables)


def cards_of(result: tuple[Placed, ...]) -> list[list[int | None] | None]:
    return [[card.index for card in one.placement.gpus] if one.placement else None for one in result]


def busy(*cards: int) -> tuple[list[EngineSpec], dict[str, Numbers]]:
    """An engine on each of these cards."""
    return [a_spec(f"busy{card}") for card in cards], {f"busy{card}@0": (card,) for card in cards}


PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))


@pytest.mark.parametrize(
    ("size", "inventory", "out", "expected"),
    [
        pytest.param(2, board("0000", cliques=[(0, 2), (1, 3)]), (), [0, 2], id="one-clique"),
        pytest.param(2, board("0000", cliques=[(0, 1), (2, 3)]), (0,), [2, 3], id="the-clique-that-is-whole"),
        pytest.param(4, board("01010101", cliques=[(0, 2), (1, 3), (4, 6), (5, 7)]), (), [0, 2, 4, 6], id="two-pairs"),
        pytest.param(4, board("00001111", cliques=PAIRS), (0,), [4, 5, 6, 7], id="whole-pairs-of-the-other-numa-node"),
        pytest.param(2, board("0000", switches=[(0, 2), (1, 3)]), (0,), [1, 3], id="one-switch"),
        pytest.param(2, board("0011"), (0,), [2, 3], id="one-numa-node"),
        pytest.param(
            3, board("0000111", cliques=[(0, 1), (2, 3)]), (), [4, 5, 6], id="one-numa-node-without-breaking-a-pair"
        ),
        pytest.param(2, board("001", cliques=[(0, 1)]), (), [0, 1], id="a-pair-and-a-single-card"),
        pytest.param(
            8, board("00001111", cliques=[tuple(range(8))]), (), list(range(8)), id="a-board-that-is-one-clique"
        ),
        pytest.param(2, board("????", cliques=None), (), [0, 1], id="nothing-is-known"),
    ],
)
def test_a_group_gets_the_nearest_cards(size: int, inventory: Inventory, out: Numbers, expected: list[int]) -> None:
    others, running = busy(*out)
    result = placed([*others, a_spec("group", tensor_parallel_size=size)], inventory, running)
    assert cards_of(result)[-1] == expected
    assert result[-1].warnings == ()


@pytest.mark.parametrize(
    ("inventory", "out", "expected"),
    [
        pytest.param(board("00001111", cliques=PAIRS), (3,), [2], id="the-card-whose-partner-is-used"),
        pytest.param(board("000", cliques=[(0, 1)]), (), [2], id="the-card-without-a-partner"),
        pytest.param(board("0" * 8, cliques=[(0, 1, 2, 3), (4, 5, 6, 7)]), (0, 4, 5, 6), [7], id="the-fuller-clique"),
        pytest.param(board("0" * 8, cliques=[tuple(range(8))]), (0,), [1], id="a-board-that-is-one-clique"),
        pytest.param(board("0000", cliques=None), (1,), [0], id="nothing-is-known"),
    ],
)
def test_a_single_engine_breaks_the_fewest_cliques(inventory: Inventory, out: Numbers, expected: list[int]) -> None:
    others, running = busy(*out)
    assert cards_of(placed([*others, a_spec("single")], inventory, running))[-1] == expected


def test_single_engines_leave_a_pair_to_the_group_behind_them() -> None:
    specs = [a_spec("a"), a_spec("b", tensor_parallel_size=2), a_spec("c")]
    assert cards_of(placed(specs, board("0000", cliques=[(0, 1), (2, 3)]))) == [[0], [2, 3], [1]]


def test_the_members_of_a_clique_are_neighbouring_ranks() -> None:
    inventory = board("0000", cliques=[(0, 2), (1, 3)])
    assert cards_of(placed([a_spec(tensor_parallel_size=2, pipeline_parallel_size=2)], inventory)) == [[0, 2, 1, 3]]


def test_a_group_over_numa_nodes_is_placed_and_warned_of() -> None:
    others, running = busy(1, 2)
    result = placed([*others, a_spec("group", tensor_parallel_size=2)], board("0011"), running)
    assert cards_of(result)[-1] == [0, 3]
    (warning,) = result[-1].warnings
    assert (warning.severity, warning.code, warning.where) == (Severity.WARNING, "gpus-far-apart", "group@0")
    assert warning.message == "its GPUs (0, 3) are in several NUMA nodes and not joined by NVLink"


def test_who_runs_is_not_warned_of_and_not_moved_to_nearer_cards() -> None:
    result = placed([a_spec(tensor_parallel_size=2)], board("0011"), {"chat@0": (0, 3)})
    assert (cards_of(result), result[0].warnings) == ([[0, 3]], ())


def test_cards_that_the_file_names_are_given_however_far_they_are() -> None:
    spec = a_spec(tensor_parallel_size=2, gpus=GpuRequest(ids=("3", "0")))
    result = placed([spec], board("0011", cliques=[(0, 1), (2, 3)]))
    assert cards_of(result) == [[3, 0]]


@pytest.mark.parametrize(
    ("inventory", "group", "expected"),
    [
        pytest.param(board("0011", cliques=[(0, 1, 2)]), (1, 2), Closeness.ONE_CLIQUE, id="within-one-clique"),
        pytest.param(board("0000", cliques=[(0, 1), (2, 3)]), (0, 1, 2, 3), Closeness.WHOLE_CLIQUES, id="two-pairs"),
        pytest.param(board("0011", cliques=[(0, 1), (2, 3)]), (0, 1, 2, 3), Closeness.ANY, id="two-pairs-far-apart"),
        pytest.param(board("0000", cliques=[(0, 1)]), (0, 1, 2), Closeness.ONE_NUMA_NODE, id="a-pair-and-a-card"),
        pytest.param(board("0000", switches=[(0, 1, 2)]), (0, 2), Closeness.ONE_SWITCH, id="one-switch"),
        pytest.param(board("0000", cliques=None), (0, 1), Closeness.ONE_NUMA_NODE, id="links-not-known"),
        pytest.param(board("??", cliques=None), (0, 1), Closeness.ANY, id="nothing-known"),
        pytest.param(board("??", cliques=None), (1,), Closeness.ONE_CLIQUE, id="one-card"),
    ],
)
def test_how_near_cards_are(inventory: Inventory, group: Numbers, expected: Closeness) -> None:
    assert closeness([inventory.gpus[index] for index in group], inventory) is expected


# ---- whoever fits is placed ----


def test_a_choosy_engine_behind_an_easy_one_gets_the_only_card_that_will_do() -> None:
    """The easy one would take the most capable card; the one behind it asks for that class."""
    specs = [a_spec("easy"), a_spec("choosy", gpus=GpuRequest(gpu_class="h100-80g"))]
    assert cards_of(placed(specs, a_node(gpu(0, H100), gpu(1, L40S)))) == [[1], [0]]


def test_a_group_behind_single_engines_gets_the_class_that_is_large_enough() -> None:
    node = a_node(*(gpu(index, H100) for index in range(2)), gpu(2, L40S))
    specs = [a_spec("a"), a_spec("group", tensor_parallel_size=2)]
    assert cards_of(placed(specs, node)) == [[2], [0, 1]]


def test_a_sick_card_goes_to_who_accepts_it_where_another_needs_the_healthy_one() -> None:
    node = a_node(gpu(0), gpu(1, H100, "2 uncorrected ECC errors"))
    specs = [a_spec("brave", accept=("gpu-health:GPU-1",)), a_spec("careful")]
    assert cards_of(placed(specs, node)) == [[1], [0]]


# ---- running engines that have to move ----


def asks_for(name: str, *cards: int) -> EngineSpec:
    return a_spec(name, tensor_parallel_size=len(cards), gpus=GpuRequest(ids=tuple(map(str, cards))))


@pytest.mark.parametrize(
    ("running", "wishes", "expected"),
    [
        pytest.param({"a": (0,), "b": (1,)}, {"a": (1,), "b": (0,)}, [[1], [0]], id="a-swap"),
        pytest.param(
            {"a": (0,), "b": (1,), "c": (2,)}, {"a": (1,), "b": (2,), "c": (0,)}, [[1], [2], [0]], id="a-cycle"
        ),
        pytest.param({"a": (0,), "b": (1,)}, {"a": (1,), "b": (3,)}, [[1], [3]], id="a-chain"),
        pytest.param(
            {"a": (0,), "b": (1,), "c": (3,)},
            {"a": (1,), "b": (3,), "c": (3,)},
            [None, None, [3]],
            id="a-chain-whose-end-is-stuck",
        ),
        pytest.param(
            {"a": (0,), "b": (1,)}, {"a": (1, 2), "b": (1, 3)}, [None, [1, 3]], id="the-first-is-stuck-anyhow"
        ),
        pytest.param({"a": (0,), "b": (1,)}, {"a": (2,), "b": (2,)}, [[2], None], id="the-first-wins"),
    ],
)
def test_engines_move_to_each_others_cards(
    running: dict[str, Numbers], wishes: dict[str, Numbers], expected: list[list[int] | None]
) -> None:
    held = {f"{name}@0": cards for name, cards in running.items()}
    specs = [asks_for(name, *cards) for name, cards in wishes.items()]
    assert cards_of(placed(specs, h100s(4), held)) == expected


def test_a_new_engine_gets_what_one_that_moves_leaves() -> None:
    assert cards_of(placed([a_spec("new"), asks_for("a", 1)], h100s(2), {"a@0": (0,)})) == [[0], [1]]


def test_a_new_engine_does_not_get_what_one_that_cannot_move_holds() -> None:
    assert cards_of(placed([a_spec("new"), asks_for("a", 0, 7)], h100s(1), {"a@0": (0,)})) == [None, None]


# ---- indices ----


def swapped(*uuids: str) -> Inventory:
    return a_node(*(gpu(index, uuid=uuid) for index, uuid in enumerate(uuids)))


def renumbered(running: dict[str, Running], name: str = "0") -> Placed:
    (result,) = place(
        [a_spec(gpus=GpuRequest(ids=(name,)))],
        swapped("GPU-b", "GPU-a"),
        running,
        ports=(8000, 8099),
        cordon=(),
        busy_ports=(),
        executables={"chat@0": "vllm"},
        bound={"chat@0": {"0": "GPU-a"}},
    )
    return result


@pytest.mark.parametrize("running", [{}, {"chat@0": Running(("GPU-a",), 8000)}], ids=["stopped", "running"])
def test_an_index_that_names_another_card_by_now_blocks_with_both(running: dict[str, Running]) -> None:
    result = renumbered(running)
    assert result.placement is None
    assert [(one.code, one.message) for one in result.refusals] == [
        ("gpu-renumbered", "gpus.ids: index 0 was GPU-a when the engine was started, and is GPU-b now")
    ]


@pytest.mark.parametrize("name", ["GPU-a", "1"])
def test_another_name_for_a_card_is_not_bound(name: str) -> None:
    result = renumbered({}, name)
    assert result.placement is not None
    assert [card.uuid for card in result.placement.gpus] == ["GPU-a"]


def test_a_card_that_has_kept_its_index_is_given_again() -> None:
    bound = {"chat@0": {"1": "GPU-1", "0": "GPU-7"}}
    (result,) = place(
        [a_spec(gpus=GpuRequest(ids=("1",)))],
        h100s(2),
        {},
        ports=(8000, 8099),
        cordon=(),
        busy_ports=(),
        executables={"chat@0": "vllm"},
        bound=bound,
    )
    assert result.placement is not None
    assert result.placement.gpus == (gpu(1),)


def test_a_running_engine_whose_index_moved_keeps_its_card_from_the_others() -> None:
    specs = [a_spec(gpus=GpuRequest(ids=("0",))), a_spec("new", tensor_parallel_size=2)]
    result = place(
        specs,
        swapped("GPU-b", "GPU-a"),
        {"chat@0": Running(("GPU-a",), 8000)},
        ports=(8000, 8099),
        cordon=(),
        busy_ports=(),
        executables={spec.engine: "vllm" for spec in specs},
        bound={"chat@0": {"0": "GPU-a"}},
    )
    assert "GPU 1 (h100-80g): given to chat@0" in result[1].refusals[0].message
