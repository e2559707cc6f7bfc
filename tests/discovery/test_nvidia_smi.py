import pytest

from llmgw_reconcile.discovery import nvidia_smi
from llmgw_reconcile.discovery.nvidia_smi import add_queries, end_queries, finish_queries, start_queries
from tests.fakes.nvidia_smi import a100, h100, install_nvidia_smi, lost_card, mig_slice, slice_uuid, uuid_of


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    def install(**node):
        install_nvidia_smi(tmp_path, {"calls": str(tmp_path / "calls")} | node)

    return install


def ask(**wanted):
    return finish_queries(start_queries(**wanted))


def calls(tmp_path):
    return sorted(line.split(" ")[0].partition("=")[0] for line in (tmp_path / "calls").read_text().splitlines())


def test_a_node_without_the_tool_has_no_cards_and_no_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    report = ask(with_versions=True)
    assert (report.is_present, report.cards, report.problems) == (False, (), ())


def test_a_tool_that_may_not_be_executed_is_an_error_and_no_node_without_gpus(tmp_path, install):
    install(gpus=[h100(0)])
    (tmp_path / "nvidia-smi").chmod(0o644)
    report = ask()
    assert report.is_present
    assert [(p.severity, p.code) for p in report.problems] == [("error", "nvidia-smi-failed")]
    assert f"not executable: {tmp_path}/nvidia-smi" in report.problems[0].message


def test_cards_and_processes_take_two_calls(tmp_path, install):
    install(gpus=[h100(0), a100(1)], processes=[{"gpu": uuid_of(1), "pid": 77, "mib": 5, "name": "x"}])
    report = ask()
    assert [(card.index, card.name) for card in report.cards] == [
        (0, "NVIDIA H100 80GB HBM3"),
        (1, "NVIDIA A100-SXM4-80GB"),
    ]
    assert report.processes == ((uuid_of(1), 77, 5, "x"),)
    assert (report.cuda_version, report.problems) == (None, ())
    assert calls(tmp_path) == ["--query-compute-apps", "--query-gpu"]


def test_versions_take_a_third_call(tmp_path, install):
    install(gpus=[h100(0)], cuda="12.6")
    assert ask(with_versions=True).cuda_version == "12.6"
    assert calls(tmp_path) == ["--query-compute-apps", "--query-gpu", "--version"]


def test_a_tool_that_does_not_know_the_option_for_versions_tells_them_in_its_table(install):
    install(gpus=[h100(0)], cuda="11.4", replies={"--version": {"text": "Invalid combination\n", "code": 2}})
    assert ask(with_versions=True).cuda_version == "11.4"


def test_fields_that_an_older_driver_rejects_are_left_out(install):
    install(gpus=[h100(0)], unknown=["compute_cap", "remapped_rows.pending", "remapped_rows.failure"])
    report = ask()
    assert report.problems == ()
    assert (report.cards[0].compute_capability, report.cards[0].remapping_pending) == (None, None)
    assert (report.cards[0].memory_total_mb, report.cards[0].ecc_errors) == (81559, 0)


def test_fields_of_one_family_are_left_out_together(tmp_path, install):
    install(gpus=[h100(0)], unknown=["remapped_rows.pending", "remapped_rows.failure"])
    assert ask().problems == ()
    assert calls(tmp_path) == ["--query-compute-apps", "--query-gpu", "--query-gpu"]


@pytest.mark.parametrize("unknown", [["clocks_throttle_reasons"], ["clocks_event_reasons"]], ids=["newer", "older"])
def test_what_slows_a_card_down_is_asked_for_by_the_name_that_its_driver_knows(install, unknown):
    names = ("hw_thermal_slowdown", "sw_thermal_slowdown", "hw_slowdown")
    card = h100(0) | {"clocks_event_reasons.sw_thermal_slowdown": "Active"}
    install(gpus=[card], unknown=[f"{family}.{name}" for family in unknown for name in names])
    report = ask()
    assert (report.cards[0].slowdowns, report.problems) == (("sw_thermal_slowdown",), ())


def test_a_driver_that_knows_neither_name_says_nothing_of_it(install):
    families = ("clocks_throttle_reasons", "clocks_event_reasons")
    names = ("hw_thermal_slowdown", "sw_thermal_slowdown", "hw_slowdown")
    install(gpus=[h100(0)], unknown=[f"{family}.{name}" for family in families for name in names])
    report = ask()
    assert (report.cards[0].slowdowns, report.cards[0].memory_total_mb, report.problems) == ((), 81559, ())


TOPOLOGY = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n"


def test_the_topology_takes_a_call_and_can_be_asked_for_late(tmp_path, install):
    install(gpus=[h100(0), h100(1)], topology=TOPOLOGY)
    queries = add_queries(start_queries(), topology=True)
    assert add_queries(queries, topology=True) == queries
    assert finish_queries(queries).topology.nvlinks == {(0, 1): 4, (1, 0): 4}
    assert calls(tmp_path) == ["--query-compute-apps", "--query-gpu", "topo"]


def test_a_topology_that_cannot_be_read_is_a_warning_and_not_known(install):
    install(gpus=[h100(0)], replies={"topo": {"text": "Not supported\n", "code": 3}})
    report = ask(with_topology=True)
    assert report.topology is None
    assert [(p.severity, p.message) for p in report.problems] == [
        ("warning", "cannot read how the GPUs are connected: exit code 3: Not supported")
    ]


SPLIT = h100(1, mig_mode_current="Enabled")
SLICES = {uuid_of(1): [mig_slice("1g.10gb", 0, 9984, pids=[(77, 500)]), mig_slice("3g.40gb", 1, 40448)]}


def test_slices_take_two_calls_where_a_card_is_split(tmp_path, install):
    install(gpus=[h100(0), SPLIT], slices=SLICES)
    report = ask(with_slices=True)
    assert [(one.card, one.uuid, one.profile, one.memory_mb, one.pids) for one in report.slices] == [
        (uuid_of(1), slice_uuid(0), "1g.10gb", 9984, ((77, 500),)),
        (uuid_of(1), slice_uuid(1), "3g.40gb", 40448, ()),
    ]
    assert calls(tmp_path) == ["", "--query-compute-apps", "--query-gpu", "-L"]


@pytest.mark.parametrize(
    ("card", "wanted"),
    [(h100(0), True), (h100(0, mig_mode_current=None), True), (SPLIT, False)],
    ids=["whole", "without-mig", "split"],
)
def test_slices_take_none_where_no_card_is_split_or_nobody_asks(tmp_path, install, card, wanted):
    install(gpus=[card])
    assert ask(with_slices=wanted).slices is None
    assert calls(tmp_path) == ["--query-compute-apps", "--query-gpu"]


def test_slices_are_looked_for_where_the_mode_may_not_be_asked_for(install):
    install(gpus=[h100(1, mig_mode_current="[Insufficient Permissions]")], slices=SLICES)
    assert len(ask(with_slices=True).slices) == 2


def test_slices_that_cannot_be_listed_are_a_warning_and_not_known(install):
    install(gpus=[SPLIT], replies={"-L": {"text": "boom\n", "code": 255}})
    report = ask(with_slices=True)
    assert report.slices is None
    assert [problem.message for problem in report.problems] == ["cannot read the MIG devices: exit code 255: boom"]


def test_all_answers_are_kept_as_they_were_given(install):
    install(gpus=[h100(0)], unknown=["compute_cap"])
    report = ask(with_versions=True, with_topology=True)
    assert [answer.argv[1].partition("=")[0] for answer in report.answers] == [
        "--query-gpu",
        "--query-compute-apps",
        "--version",
        "topo",
        "--query-gpu",
    ]
    assert report.answers[0].returncode == 2


def test_a_field_that_cannot_be_done_without_is_not_left_out(tmp_path, install):
    install(gpus=[h100(0)], unknown=["uuid"])
    (problem,) = ask().problems
    assert problem.message == 'cannot read the GPUs: exit code 2: Field "uuid" is not a valid field to query.'
    assert calls(tmp_path) == ["--query-compute-apps", "--query-gpu"]


def test_columns_in_another_order_are_understood(install):
    install(gpus=[h100(0, temperature_gpu=55)], columns=["temperature.gpu", "memory.used", "name"])
    (card,) = ask().cards
    assert (card.index, card.temperature_c, card.memory_used_mb) == (0, 55, 1)


def test_a_lost_card_between_good_ones_is_told(install):
    install(gpus=[h100(0), lost_card("0000:30:00.0"), h100(2)], code=255)
    report = ask()
    assert [(card.index, card.pci_bus_id) for card in report.cards][2] == (None, "0000:30:00.0")
    assert report.problems == ()


def test_a_tool_that_fails_altogether_gives_one_error(install):
    install(replies={"": {"text": "No devices were found\n", "code": 6}})
    report = ask(with_versions=True)
    assert (report.cards, report.cuda_version) == ((), None)
    assert [problem.message for problem in report.problems] == [
        "cannot read the GPUs: exit code 6: No devices were found"
    ]


def test_output_that_is_cut_off_is_an_error(install):
    install(gpus=[h100(0), h100(1)], cut=420)
    assert [problem.code for problem in ask().problems] == ["nvidia-smi-unreadable"]


def test_processes_that_cannot_be_read_are_a_warning(install):
    install(gpus=[h100(0)], replies={"--query-compute-apps": {"error": "boom\n", "code": 255}})
    report = ask()
    assert report.processes is None
    assert [problem.message for problem in report.problems] == [
        "cannot read the processes on the GPUs: exit code 255: boom"
    ]


def test_a_tool_that_hangs_is_an_error_when_its_time_is_over(install, monkeypatch):
    start = nvidia_smi.start_tool
    monkeypatch.setattr(nvidia_smi, "start_tool", lambda argv, **more: start(argv, timeout=0.3, **more))
    install(gpus=[h100(0)], hang=True)
    (problem,) = ask(with_versions=True).problems
    assert problem.message == "cannot read the GPUs: no answer within 0.3 s: nothing was printed"
    assert "driver hangs" in problem.hint


def test_the_tool_is_asked_for_english(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    (tmp_path / "nvidia-smi").write_text('#!/bin/sh\necho "$LC_ALL"; exit 9\n')
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert ask().problems[0].message == "cannot read the GPUs: exit code 9: C"


def test_calls_that_nobody_waits_for_are_ended(install):
    install(hang=True)
    queries = start_queries(with_versions=True)
    end_queries(queries)
    assert finish_queries(queries).problems[0].message.startswith("cannot read the GPUs: ended by SIGKILL")
