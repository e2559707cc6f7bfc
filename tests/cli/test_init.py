"""`llmgw init`: a first state file."""

from __future__ import annotations

import pytest

from llmgw_reconcile.cli.main import main
from llmgw_reconcile.statefile.load import load_state
from tests.fakes.nvidia_smi import h100, install_nvidia_smi


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A node of folders, reached through the environment alone."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("LLMGW_SYSFS_ROOT", str(tmp_path / "sys"))
    monkeypatch.setenv("LLMGW_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_fits_the_node(place, capsys) -> None:
    install_nvidia_smi(place / "bin", {"gpus": [h100(0), h100(1)]})
    engine = place / "bin/vllm"
    engine.write_text("#!/bin/sh\n")
    engine.chmod(0o755)
    assert main(["init", "--node", "gpu-07"]) == 0
    out, err = capsys.readouterr()
    state = load_state("-", out.encode(), base="/")
    assert (state.node.name, err) == ("gpu-07", "")
    assert [(str(model.engine), model.gpus.gpu_class) for model in state.models] == [("vllm", "h100-80g")]
    assert f"#   vllm          version unknown, {engine}\n" in out


def test_it_writes_a_new_file_and_never_over_an_old_one(place, capsys) -> None:
    assert main(["init", "node.yaml", "--node", "gpu-07"]) == 0
    assert capsys.readouterr().out == "wrote node.yaml; see what it would do: llmgw plan node.yaml\n"
    written = (place / "node.yaml").read_text()
    assert main(["init", "node.yaml", "--command", "vllm serve m"]) == 3
    assert "cannot write node.yaml: it exists already" in capsys.readouterr().err
    assert (place / "node.yaml").read_text() == written


def test_it_changes_nothing_on_the_node(place) -> None:
    main(["init"])
    assert not (place / "state").exists()


def test_a_command_becomes_an_entry(place, capsys) -> None:
    assert main(["init", "--command", "vllm serve Qwen/Qwen3-32B -tp 4 --reasoning-parser qwen3"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (
        "# yaml-language-server: $schema=state.schema.json\n"
        "version: 1\n"
        "\n"
        "models:\n"
        "  - name: qwen3-32b\n"
        "    model: Qwen/Qwen3-32B\n"
        "    engine: vllm\n"
        "    served_model_name: Qwen/Qwen3-32B\n"
        "    tensor_parallel_size: 4\n"
        "    args: [--reasoning-parser, qwen3]\n"
    )


def test_a_secret_of_a_command_is_warned_of_and_in_neither_stream(place, capsys) -> None:
    assert main(["init", "--command", "HF_TOKEN=hf_77 vllm serve m --api-key sk-77"]) == 0
    out, err = capsys.readouterr()
    assert "77" not in out + err
    assert "    env: {HF_TOKEN: {env: HF_TOKEN}}\n" in out
    assert "    api_key: {env: VLLM_API_KEY}\n" in out
    assert err.count("warning[command-remark]") == 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("docker run vllm/vllm-openai --model m", "llmgw runs engines as plain processes", id="container"),
        pytest.param("vllm serve m --port $PORT", "only your shell knows $PORT", id="shell-variable"),
        pytest.param(
            "vllm serve m --port 80", "error[wrong-value] --command: port: found the integer 80", id="no-entry"
        ),
        pytest.param("sglang serve --model-path m --served-model-name a b", "[inexpressible] --command", id="no-words"),
    ],
)
def test_what_cannot_be_an_entry_is_refused(place, capsys, command: str, words: str) -> None:
    assert main(["init", "new.yaml", "--command", command]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert not (place / "new.yaml").exists()
