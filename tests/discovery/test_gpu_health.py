import pytest

from llmgw_reconcile.discovery.gpu_health import find_problems, find_slice_problems, find_warnings
from llmgw_reconcile.discovery.nvidia_cards import Card
from llmgw_reconcile.model.gpu import Holder, HolderKind

HEALTHY = Card(index=0, uuid="GPU-1", name="NVIDIA H100 80GB HBM3", memory_total_mb=81559, memory_used_mb=0)

UNSEEN = ", which is not visible here: in another PID namespace, hidden, or just ended"
OURS = Holder(7, "llm", "x", 70000, "chat@0", HolderKind.OURS)


def problems(holders=(), held_above_mb=1024, **fields):
    return find_problems(HEALTHY._replace(**fields), holders, held_above_mb=held_above_mb)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ()),
        ({"ecc_errors": 0, "mig_enabled": False, "remapping_pending": False}, ()),
        ({"ecc_errors": None, "memory_used_mb": None, "memory_total_mb": None}, ()),
        ({"ecc_errors": 1}, ("1 uncorrected ECC error",)),
        ({"ecc_errors": 2}, ("2 uncorrected ECC errors",)),
        ({"remapping_pending": True}, ("row remapping pending: reset the GPU",)),
        ({"remapping_failed": True}, ("row remapping failed: replace the GPU",)),
        ({"retirement_pending": True}, ("page retirement pending: reset the GPU",)),
        ({"mig_enabled": True}, ("MIG mode is on: not offered as a whole",)),
        ({"uuid": None}, ("the driver gives no UUID for it",)),
        ({"sentences": ("GPU 0000:01:00.0 is\tlost",)}, ("nvidia-smi says: GPU 0000:01:00.0 is lost",)),
        (
            {"faults": (("temperature.gpu", "ERR!"), ("memory.used", "[Unknown Error]"), ("name", "ERR!"))},
            (
                "the driver answers ERR! for temperature.gpu, name",
                "the driver answers [Unknown Error] for memory.used",
            ),
        ),
        (
            # such a card shows 0 MiB used: it looks free
            {"faults": (("temperature.gpu", "[GPU requires reset]"),)},
            ("requires reset ([GPU requires reset]): `nvidia-smi --gpu-reset`, or reboot",),
        ),
        (
            {"ecc_errors": 3, "remapping_pending": True, "mig_enabled": True},
            (
                "3 uncorrected ECC errors",
                "row remapping pending: reset the GPU",
                "MIG mode is on: not offered as a whole",
            ),
        ),
    ],
)
def test_what_the_driver_says_becomes_words(fields, expected):
    assert problems(**fields) == expected


@pytest.mark.parametrize(
    ("holder", "expected"),
    [
        pytest.param(Holder(4121, "alice", "python", 64), ("64 MiB held by pid 4121 python of alice",), id="64-MiB"),
        pytest.param(Holder(4121, "alice", "python", 63), (), id="63-MiB-are-a-desktop"),
        pytest.param(
            Holder(4121, "alice", "python", None),
            ("an unknown amount of memory held by pid 4121 python of alice",),
            id="unknown-amount",
        ),
        pytest.param(
            Holder(4121, None, "burn", 900, kind=HolderKind.NOT_VISIBLE),
            (f"900 MiB held by pid 4121 burn{UNSEEN}",),
            id="not-visible-in-proc",
        ),
        pytest.param(Holder(4121, "llm", "VLLM::EngineCore", 70000, "chat@0", HolderKind.OURS), (), id="ours"),
        pytest.param(Holder(4121, "llm", "VLLM", None, "chat@0", HolderKind.OURS), (), id="ours-of-unknown-amount"),
        pytest.param(Holder(4121, "llm", "VLLM", 70000, "chat@0", HolderKind.LEFT_OVER), (), id="left-over-of-ours"),
        pytest.param(
            Holder(61, "bob", "llmgw: supervisor chat@0", kind=HolderKind.OTHER_LLMGW),
            ("given to an engine of another llmgw: pid 61 llmgw: supervisor chat@0 of bob",),
            id="given-away-by-another-llmgw",
        ),
        pytest.param(
            Holder(62, "bob", "VLLM", 70000, kind=HolderKind.OTHER_LLMGW),
            ("70000 MiB held by pid 62 VLLM of bob",),
            id="held-by-an-engine-of-another-llmgw",
        ),
    ],
)
def test_a_foreign_process_with_64_mib_or_an_unknown_amount_is_a_problem(holder, expected):
    assert problems([holder], memory_used_mb=holder.memory_mb) == expected


@pytest.mark.parametrize(
    ("used", "holders", "expected"),
    [
        pytest.param(1024, (), (), id="up-to-the-threshold"),
        pytest.param(1025, (), ("1025 MiB held by a process that is not visible",), id="above-it"),
        pytest.param(70600, (OURS,), (), id="ours-explains-it"),
        pytest.param(
            71500,
            (OURS,),
            ("1500 MiB held by a process that is not visible",),
            id="ours-explains-only-a-part",
        ),
        pytest.param(1080, (Holder(8, "x", "Xorg", 60),), (), id="a-desktop-explains-its-part"),
        pytest.param(90000, (OURS._replace(memory_mb=None),), (), id="ours-of-unknown-amount-may-explain-it"),
        pytest.param(None, (), (), id="not-told"),
    ],
)
def test_memory_that_no_visible_process_explains_is_a_problem_above_the_threshold(used, holders, expected):
    assert problems(holders, memory_used_mb=used) == expected


@pytest.mark.parametrize(
    ("slowdowns", "warnings"),
    [
        ((), ()),
        (("sw_thermal_slowdown",), ("the driver slows it down, since it is too hot",)),
        (("hw_slowdown",), ("its hardware slows it down: heat, or a lack of power",)),
        (("hw_thermal_slowdown", "hw_slowdown"), ("its hardware slows it down, since it is too hot",)),
    ],
)
def test_a_card_that_is_slowed_down_is_fit_with_a_warning(slowdowns, warnings):
    card = HEALTHY._replace(slowdowns=slowdowns)
    assert find_warnings(card) == warnings
    assert find_problems(card, (), held_above_mb=1024) == ()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mig_enabled": True, "memory_used_mb": 70000}, ()),
        ({"ecc_errors": 1}, ("1 uncorrected ECC error",)),
        ({"faults": (("memory.used", "[Insufficient Permissions]"),)}, ()),
        ({"faults": (("memory.used", "ERR!"),)}, ("the driver answers ERR! for memory.used",)),
    ],
    ids=["split-and-in-use", "a-fault-of-the-memory", "not-for-this-container", "a-fault-of-the-card"],
)
def test_the_condition_of_a_card_is_that_of_its_slices(fields, expected):
    assert find_slice_problems(HEALTHY._replace(**fields)) == expected


def test_the_threshold_is_the_one_of_the_state_file():
    assert problems((), 200, memory_used_mb=201) == ("201 MiB held by a process that is not visible",)


def test_a_card_whose_processes_could_not_be_read_is_not_called_free():
    assert problems(None) == ("its processes could not be read",)
