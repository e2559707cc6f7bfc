import json
import os

import pytest

from llmgw_reconcile.cli.main import main
from tests.fakes.nvidia_smi import h100, install_nvidia_smi, uuid_of
from tests.fakes.sysfs import infiniband, write_class


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A node of folders, reached through the environment alone."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LLMGW_SYSFS_ROOT", str(tmp_path / "sys"))
    monkeypatch.setenv("LLMGW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def test_the_document_tells_the_node(place, capsys):
    install_nvidia_smi(place, {"gpus": [h100(0), h100(1, ecc_errors_uncorrected_volatile_total=1)], "cuda": "12.9"})
    write_class(place / "sys", infiniband("mlx5_0"))
    assert main(["agent", "inventory", "-o", "json", "--node", "gpu-07"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["node"], document["source"], document["cuda_version"]) == ("gpu-07", "nvidia-smi", "12.9")
    assert [(gpu["uuid"], gpu["health"]["problems"]) for gpu in document["gpus"]] == [
        (uuid_of(0), []),
        (uuid_of(1), ["1 uncorrected ECC error"]),
    ]
    assert document["fabric"]["ports"] == ["mlx5_0:1"]


def test_gpus_that_could_not_be_read_end_with_1_and_a_document_all_the_same(place, capsys):
    install_nvidia_smi(place, {"replies": {"": {"text": "No devices were found\n", "code": 6}}})
    assert main(["agent", "inventory", "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["problems"][0]["message"] == "cannot read the GPUs: exit code 6: No devices were found"


def test_a_node_without_gpus_is_no_failure(place, capsys):
    assert main(["agent", "inventory"]) == 0
    assert capsys.readouterr().out.startswith(f"{os.uname().nodename}: no GPUs (there is no nvidia-smi)\n")


def test_looking_writes_nothing(place):
    install_nvidia_smi(place, {"gpus": [h100(0)]})
    before = sorted(os.listdir(place))
    main(["agent", "inventory"])
    assert sorted(os.listdir(place)) == before


def test_colour_follows_the_flag(place, capsys):
    install_nvidia_smi(place, {"gpus": [h100(0)]})
    main(["agent", "inventory", "--color", "always"])
    assert "\x1b[32mfit\x1b[0m" in capsys.readouterr().out
    main(["agent", "inventory"])
    assert "\x1b" not in capsys.readouterr().out


def test_an_unknown_output_is_a_usage_error(place, capsys):
    assert main(["agent", "inventory", "-o", "xml"]) == 64
    assert "xml" in capsys.readouterr().err
