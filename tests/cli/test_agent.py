import json
import os
import resource

import jsonschema
import pytest

from llmgw_reconcile.cli.main import main
from llmgw_reconcile.discovery.snapshot import world_of
from llmgw_reconcile.host.schema_files import schema_text
from tests.fakes.nvidia_smi import h100, install_nvidia_smi, mig_slice, slice_uuid, uuid_of
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


TOPOLOGY = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tPIX\t0-31\t0\t\tN/A
GPU1\tNV18\t X \tSYS\t32-63\t1\t\tN/A
  NIC0: mlx5_0
"""


def test_the_document_fits_its_schema_and_tells_how_all_is_connected(place, capsys):
    split = h100(1, mig_mode_current="Enabled")
    install_nvidia_smi(
        place,
        {"gpus": [h100(0), split], "topology": TOPOLOGY, "slices": {uuid_of(1): [mig_slice("3g.40gb", 0, 40448)]}},
    )
    write_class(place / "sys", infiniband("mlx5_0"))
    assert main(["agent", "inventory", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_text("inventory")), jsonschema.Draft7Validator)
    assert document["nvlink_domains"] == [[0, 1]]
    assert document["gpus"][0]["adapters"] == [{"device": "mlx5_0", "pcie": "PIX"}]
    assert [one["class"] for one in document["gpus"][1]["mig"]["slices"]] == ["h100-mig-3g.40gb"]
    assert document["hcas"][0]["near_gpus"] == [0]


def test_what_a_launch_would_suffer_from_is_a_warning(place, capsys, monkeypatch):
    install_nvidia_smi(place, {"gpus": [h100(0)]})
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    assert main(["agent", "inventory"]) == 0
    assert "warning[low-nofile]" in capsys.readouterr().out


def test_a_snapshot_carries_the_facts_to_a_plan_elsewhere(place, capsys, monkeypatch):
    install_nvidia_smi(
        place,
        {
            "gpus": [h100(0), h100(1, mig_mode_current="Enabled")],
            "topology": TOPOLOGY,
            "slices": {uuid_of(1): [mig_slice("3g.40gb", 0, 40448)]},
        },
    )
    assert main(["agent", "snapshot", "--node", "gpu-07"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document["inventory"], json.loads(schema_text("inventory")), jsonschema.Draft7Validator)
    inventory, _ = world_of(document)
    assert inventory.nvlink_domains == ((0, 1),)
    assert inventory.gpus[1].parts[0].gpu_class == "h100-mig-3g.40gb"
    (place / "node.json").write_text(json.dumps(document))
    model = {"name": "chat", "model": "org/m", "engine": "vllm", "gpus": {"class": "h100-mig-3g.40gb"}}
    (place / "node.yaml").write_text(json.dumps({"version": 1, "models": [model]}))
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["plan", str(place / "node.yaml"), "--from", str(place / "node.json"), "-o", "json"]) == 0
    (action,) = json.loads(capsys.readouterr().out)["actions"]
    assert (action["action"], action["gpus"]) == ("start", [slice_uuid(0)])


def test_a_recording_is_one_masked_document(place, capsys):
    install_nvidia_smi(place, {"gpus": [h100(0)], "topology": TOPOLOGY})
    write_class(place / "sys", infiniband("mlx5_0"))
    assert main(["agent", "record", "--node", "gpu-07"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert [tool["argv"][1].partition("=")[0] for tool in document["tools"]] == [
        "--query-gpu",
        "--query-compute-apps",
        "--version",
        "topo",
    ]
    assert document["sys"]["texts"]["class/infiniband/mlx5_0/ports/1/state"] == "4: ACTIVE\n"
    assert uuid_of(0) not in out
    assert err == "masked: 1 guid, 1 uuid; look through it before you hand it in\n"
