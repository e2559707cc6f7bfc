import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.discovery.nvidia_cards import Card, GpuProcess, read_gpus, read_processes
from llmgw_reconcile.discovery.nvidia_smi import GPU_FIELDS, OPTIONAL_FIELDS
from llmgw_reconcile.host.tool import ToolResult

FIELDS = (*GPU_FIELDS, *OPTIONAL_FIELDS[:7])  # all that a row of these tests has
HEADER = (
    "index, uuid, name, pci.bus_id, memory.total [MiB], memory.used [MiB], driver_version, compute_cap,"
    " temperature.gpu, ecc.errors.uncorrected.volatile.total, mig.mode.current, remapped_rows.pending,"
    " remapped_rows.failure, retired_pages.pending\n"
)
UUID = "GPU-c0ffee00-0000-4000-8000-00000000000{}"
APPS = "gpu_uuid, pid, used_gpu_memory [MiB], process_name\n"


def row(index, *, bus=None, tail="9.0, 38, 0, Disabled, No, No, [N/A]"):
    bus = bus or f"00000000:{index + 1:02X}:00.0"
    return f"{index}, {UUID.format(index)}, NVIDIA H100 80GB HBM3, {bus}, 81559, 12, 550.90.07, {tail}\n"


def answer(stdout, code=0, *, stderr="", problem=""):
    return ToolResult(("nvidia-smi",), None if problem else code, stdout, stderr, problem)


def cards_of(text, code=0, **more):
    return read_gpus(answer(text, code, **more), FIELDS)


def test_a_healthy_card_has_every_field():
    (card,), problems = cards_of(HEADER + row(0))
    assert problems == ()
    assert card == Card(
        index=0,
        uuid="GPU-c0ffee00-0000-4000-8000-000000000000",
        name="NVIDIA H100 80GB HBM3",
        pci_bus_id="00000000:01:00.0",
        memory_total_mb=81559,
        memory_used_mb=12,
        driver_version="550.90.07",
        compute_capability="9.0",
        temperature_c=38,
        ecc_errors=0,
        mig_enabled=False,
        remapping_pending=False,
        remapping_failed=False,
        retirement_pending=None,
    )


def test_further_columns_tell_display_persistence_and_what_slows_the_card_down():
    header = HEADER.rstrip() + (
        ", display_active, persistence_mode, clocks_event_reasons.hw_thermal_slowdown,"
        " clocks_event_reasons.sw_thermal_slowdown, clocks_event_reasons.hw_slowdown\n"
    )
    (card,), problems = cards_of(header + row(0).rstrip() + ", Enabled, Disabled, Active, Not Active, Active\n")
    assert (card.display, card.persistence_mode) == (True, False)
    assert card.slowdowns == ("hw_thermal_slowdown", "hw_slowdown")
    assert (card.faults, problems) == ((), ())


def test_units_in_cells_are_understood_where_the_tool_prints_them_all_the_same():
    (card,), _ = cards_of(HEADER + row(0).replace("81559, 12,", "81559 MiB, 12 MiB,"))
    assert (card.memory_total_mb, card.memory_used_mb) == (81559, 12)


@pytest.mark.parametrize("cell", ["[N/A]", "N/A", "[Not Supported]", "[Requested functionality has been deprecated]"])
def test_what_a_card_does_not_support_is_unknown_and_no_fault(cell):
    tail = ", ".join([cell] * 7)
    (card,), problems = cards_of(HEADER + row(0, tail=tail))
    assert (card.compute_capability, card.temperature_c, card.ecc_errors, card.mig_enabled) == (None, None, None, None)
    assert (card.faults, problems) == ((), ())


@pytest.mark.parametrize(
    "cell", ["[Unknown Error]", "ERR!", "[GPU requires reset]", "[GPU is lost]", "[Insufficient Permissions]", "-1"]
)
def test_any_other_cell_without_a_value_is_unknown_and_a_fault(cell):
    (card, good), problems = cards_of(HEADER + row(0, tail=f"9.0, {cell}, {cell}, Disabled, No, No, [N/A]") + row(1))
    assert (card.temperature_c, card.ecc_errors) == (None, None)
    assert card.faults == (("temperature.gpu", cell), ("ecc.errors.uncorrected.volatile.total", cell))
    assert (good.faults, problems) == ((), ())


def test_cards_come_in_the_order_of_their_index():
    cards, _ = cards_of(HEADER + row(2) + row(0) + row(1))
    assert [card.index for card in cards] == [0, 1, 2]


@pytest.mark.parametrize(
    "sentence",
    [
        "Unable to determine the device handle for GPU0000:04:00.0: Unknown Error",
        "Unable to determine the device handle for GPU 0000:04:00.0: GPU is lost.  Reboot the system",
        "Unable to determine the device handle for gpu 0000:04:00.0: Unknown Error",
        "Unable to determine the device handle for GPU00000000:04:00.0: Unknown Error",
    ],
)
@pytest.mark.parametrize("code", [0, 15, 255])
def test_a_lost_card_is_known_by_its_address_and_the_good_ones_survive(sentence, code):
    cards, problems = cards_of(HEADER + row(0) + f"{sentence}\n" + row(2), code)
    assert [card.index for card in cards] == [0, 2, None]
    assert cards[2] == Card(pci_bus_id="0000:04:00.0", sentences=(sentence,))
    assert problems == ()


def test_a_lost_card_that_also_gets_an_empty_row_is_listed_once():
    empty = ", ".join(["[Unknown Error]"] * 14)
    lost = "Unable to determine the device handle for GPU0000:04:00.0: Unknown Error"
    cards, problems = cards_of(f"{HEADER}{row(0)}{lost}\n{empty}\n{row(2)}", 255)
    assert [(card.index, card.pci_bus_id) for card in cards[2:]] == [(None, "0000:04:00.0")]
    assert problems == ()


def test_an_empty_row_without_a_sentence_is_a_card_all_the_same():
    cards, _ = cards_of(HEADER + row(0) + ", ".join(["[Unknown Error]"] * 14) + "\n")
    assert len(cards) == 2
    assert (cards[1].index, cards[1].uuid) == (None, None)
    assert len(cards[1].faults) == 14


def test_a_sentence_about_a_card_that_has_a_row_belongs_to_that_card():
    warning = "WARNING: infoROM is corrupted at gpu 000A:02:00.0"
    cards, problems = cards_of(HEADER + row(0) + row(1, bus="0000000A:02:00.0") + warning + "\n", 14)
    assert [card.sentences for card in cards] == [(), (warning,)]
    assert problems == ()


def test_a_sentence_that_names_a_card_by_its_uuid_belongs_to_that_card():
    xid = f"Xid 79 was seen on {UUID.format(1)}"
    cards, problems = cards_of(HEADER + row(0) + row(1) + f"{xid}\n")
    assert [card.sentences for card in cards] == [(), (xid,)]
    assert problems == ()


def test_a_sentence_on_standard_error_counts_too():
    lost = "Unable to determine the device handle for GPU0000:04:00.0: Unknown Error"
    cards, _ = cards_of(HEADER + row(0), 255, stderr=f"{lost}\n")
    assert cards[1].sentences == (lost,)


def test_a_remark_about_no_card_is_a_warning():
    _, (problem,) = cards_of("Persistence\x1b mode is off\n" + HEADER + row(0))
    assert (problem.severity, problem.code) == ("warning", "nvidia-smi-remark")
    assert problem.message == "the tool remarks: Persistence\\x1b mode is off"


@pytest.mark.parametrize(
    ("stdout", "code", "printed", "hint"),
    [
        ("Failed:\n mismatch\nNVML: 535.54\n", 18, "Failed:; mismatch; NVML: 535.54", "reload"),
        ("No devices were found\n", 6, "No devices were found", "lspci"),
        ("NVIDIA-SMI has failed\n\n", 9, "NVIDIA-SMI has failed", "modprobe"),
        ("\x1b[31mno\n", 12, "\\x1b[31mno", "libnvidia-ml.so"),
        ("", 255, "nothing was printed", "Xid"),
        ("", 77, "nothing was printed", "by hand"),
        (HEADER, 4, HEADER.strip(), "permissions"),
    ],
)
def test_a_failure_without_rows_is_an_error_with_code_words_and_cure(stdout, code, printed, hint):
    cards, (problem,) = cards_of(stdout, code)
    assert cards == ()
    assert (problem.severity, problem.code, problem.where) == ("error", "nvidia-smi-failed", "nvidia-smi")
    assert problem.message == f"cannot read the GPUs: exit code {code}: {printed}"
    assert hint in problem.hint


def test_one_lost_card_and_no_row_does_not_mean_that_there_are_no_others():
    lost = "Unable to determine the device handle for GPU 0000:03:00.0: GPU is lost\n"
    (card,), (problem,) = cards_of(lost, 15)
    assert card.pci_bus_id == "0000:03:00.0"
    assert problem.severity == "error"
    assert "fallen off the bus" in problem.hint


@pytest.mark.parametrize("problem", ["no answer within 20 s", "ended by SIGSEGV", "printed more than 4 MiB"])
def test_a_tool_that_did_not_end_by_itself_is_an_error_and_what_it_printed_is_kept(problem):
    cards, (found,) = cards_of(HEADER + row(0), problem=problem)
    assert [card.index for card in cards] == [0]
    assert found.severity == "error"
    assert problem in found.message


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param(HEADER, id="header-only"),
        pytest.param("index, uuid, na", id="cut-off-in-the-header"),
        pytest.param("\x7fELF\x02\x01\n", id="garbage"),
        pytest.param(row(0), id="no-header"),
        pytest.param(HEADER + row(0) + row(1)[:40], id="cut-off-in-a-row"),
        pytest.param(HEADER + row(0) + row(1).rstrip("\n"), id="cut-off-before-the-last-line-end"),
        pytest.param(HEADER + row(0) + row(1).replace("81559", "81,559"), id="a-localised-number"),
    ],
)
def test_an_answer_in_an_unknown_form_is_an_error_even_with_exit_code_0(text):
    _, (problem,) = cards_of(text)
    assert (problem.severity, problem.code) == ("error", "nvidia-smi-unreadable")


def test_good_rows_with_an_exit_code_that_nothing_explains_are_not_trusted_to_be_all():
    cards, (problem,) = cards_of(HEADER + row(0), 10)
    assert len(cards) == 1
    assert (problem.severity, problem.code) == ("error", "nvidia-smi-failed")


def test_with_exit_code_14_all_cards_are_there_if_any_is():
    _, (problem,) = cards_of(HEADER + row(0), 14)
    assert problem.severity == "warning"
    for text in ("", HEADER):
        _, (problem,) = cards_of(text, 14)
        assert problem.severity == "error"


def test_processes_are_summed_up_by_card_and_pid():
    text = f"{APPS}{UUID.format(1)}, 40, 100, /opt/a, b\n{UUID.format(0)}, 50, [N/A], [Not Found]\n"
    processes, problems = read_processes(answer(text + f"{UUID.format(1)}, 40, 20, /opt/a, b\n"))
    assert processes == (
        GpuProcess(UUID.format(0), 50, None, None),
        GpuProcess(UUID.format(1), 40, 120, "/opt/a, b"),
    )
    assert problems == ()


def test_an_amount_that_is_unknown_for_one_slice_is_unknown_for_the_process():
    text = f"{APPS}{UUID.format(1)}, 40, 100, x\n{UUID.format(1)}, 40, [N/A], x\n"
    processes, _ = read_processes(answer(text))
    assert processes == (GpuProcess(UUID.format(1), 40, None, "x"),)


def test_a_card_without_the_query_for_processes_has_none():
    assert read_processes(answer(f"{APPS}[Not Supported], [Not Supported], [N/A], [N/A]\n")) == ((), ())


def test_a_lost_card_does_not_hide_the_processes_of_the_others():
    text = (
        f"{APPS}Unable to determine the device handle for GPU0000:04:00.0: Unknown Error\n{UUID.format(0)}, 7, 9, x\n"
    )
    processes, problems = read_processes(answer(text, 255))
    assert processes == (GpuProcess(UUID.format(0), 7, 9, "x"),)
    assert problems == ()


@pytest.mark.parametrize("text", ["", "No\n", f"{APPS}{UUID.format(0)}, 7", APPS.strip()])
def test_processes_that_cannot_be_read_are_none_and_a_warning(text):
    processes, (problem,) = read_processes(answer(text))
    assert processes is None
    assert (problem.severity, problem.code) == ("warning", "nvidia-smi-processes")


lines = st.sampled_from(
    [HEADER, APPS, row(0), row(1), "GPU 0000:04:00.0 lost\n", f"{UUID.format(0)}, 7, 9, x\n", "\n", "0, 1\n"]
)
texts = st.lists(lines | st.text(max_size=30), max_size=8).map("".join)


@given(stdout=texts, stderr=st.text(max_size=40), code=st.integers(-1, 255), cut=st.integers(0, 900))
def test_any_answer_gives_cards_or_an_error_and_never_an_exception(stdout, stderr, code, cut):
    result = answer(stdout[:cut], code, stderr=stderr, problem="" if code >= 0 else "ended by SIGKILL")
    cards, problems = read_gpus(result, FIELDS)
    assert cards or any(problem.severity == "error" for problem in problems)
    assert all(problem.message.isprintable() for problem in problems)
    processes, _ = read_processes(result)
    assert processes is None or all(process.pid >= 0 for process in processes)


@given(cells=st.lists(st.text("[]0123456789.,EnabldYsoN/A ERR!\u0661", max_size=12), min_size=14, max_size=14))
def test_any_cells_are_values_unsupported_or_faults(cells):
    cards, _ = cards_of(HEADER + ", ".join(cells) + "\n")
    for card in cards:
        assert card.index is None or card.index >= 0
        assert len(card.faults) <= 14
