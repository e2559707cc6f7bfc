import pytest

from llmgw_reconcile.discovery import nvidia_smi
from llmgw_reconcile.discovery.nvidia_smi import NvidiaReport, end_queries, finish_queries, start_queries
from tests.fakes.nvidia_smi import a100, h100, install_nvidia_smi, lost_card, uuid_of


@pytest.fixture
def install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    def install(**node):
        install_nvidia_smi(tmp_path, {"calls": str(tmp_path / "calls")} | node)

    return install


def ask(*, with_versions=False):
    return finish_queries(start_queries(with_versions=with_versions))


def calls(tmp_path):
    return sorted(line.split()[0].partition("=")[0] for line in (tmp_path / "calls").read_text().splitlines())


def test_a_node_without_the_tool_has_no_cards_and_no_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask(with_versions=True) == NvidiaReport(is_present=False)


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
