import io
import json
import subprocess
import sys

import pytest

from llmgw_reconcile.cli.main import main

GOOD = "version: 1\nmodels:\n  - {name: chat, model: acme/tiny, engine: vllm, port: 8000, replicas: 2}\n"
WRONG = GOOD.replace("port", "prot")
CLASHING = GOOD + "  - {name: code, model: acme/tiny, engine: vllm, port: 8001}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    for name, text in {"good": GOOD, "wrong": WRONG, "clashing": CLASHING}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def test_a_valid_file_is_said_to_be_valid_with_its_models_and_engines(folder, capsys):
    assert main(["validate", "good.yaml"]) == 0
    assert capsys.readouterr() == ("good.yaml: valid, 1 model, 2 engines\n", "")


def test_a_wrong_file_is_refused_with_its_diagnostics_on_standard_error(folder, capsys):
    assert main(["validate", "wrong.yaml"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == ("error[unknown-key] wrong.yaml:3:50: models[0].prot: unknown key\n  hint: did you mean port?\n")


def test_the_rules_of_the_file_are_checked_too(folder, capsys):
    assert main(["validate", "clashing.yaml"]) == 3
    _, err = capsys.readouterr()
    assert "clashing.yaml:4:" in err
    assert "8001" in err


def test_every_file_is_checked_though_the_first_one_is_wrong(folder, capsys):
    assert main(["validate", "wrong.yaml", "gone.yaml", "good.yaml"]) == 3
    out, err = capsys.readouterr()
    assert out == "good.yaml: valid, 1 model, 2 engines\n"
    assert "wrong.yaml:3:50" in err
    assert "gone.yaml: cannot read the state file: No such file or directory" in err


def test_json_holds_every_file_and_diagnostic(folder, capsys):
    assert main(["validate", "-o", "json", "good.yaml", "wrong.yaml"]) == 3
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "format_version": 1,
        "files": [
            {"file": "good.yaml", "valid": True, "models": 1, "engines": 2, "diagnostics": []},
            {
                "file": "wrong.yaml",
                "valid": False,
                "models": None,
                "engines": None,
                "diagnostics": [
                    {
                        "severity": "error",
                        "code": "unknown-key",
                        "where": "wrong.yaml:3:50",
                        "message": "models[0].prot: unknown key",
                        "hint": "did you mean port?",
                    }
                ],
            },
        ],
    }


def test_a_warning_leaves_a_file_valid(folder, capsys):
    (folder / "warned.yaml").write_text(GOOD.replace("replicas: 2", "labels: {team: null}"))
    assert main(["validate", "warned.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out == "warned.yaml: valid, 1 model, 1 engine\n"
    assert err.startswith("warning[null-is-text] warned.yaml:3:")


def test_a_dash_is_standard_input(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert main(["validate", "-"]) == 0
    assert capsys.readouterr().out == "-: valid, 1 model, 2 engines\n"


def test_no_file_is_a_usage_error(capsys):
    assert main(["validate"]) == 64
    assert "STATE" in capsys.readouterr().err


def test_a_file_whose_name_is_no_text_is_still_checked(folder):
    name = b"caf\xe9.yaml"
    with open(bytes(folder) + b"/" + name, "w") as file:
        file.write(GOOD)
    done = subprocess.run(
        [sys.executable, "-m", "llmgw_reconcile", "validate", name], capture_output=True, cwd=folder, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b".yaml: valid, 1 model, 2 engines\n")


def test_a_workflow_gets_annotations_with_paths_from_its_checkout(folder, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    assert main(["validate", "-o", "json", "good.yaml", "wrong.yaml"]) == 3
    out, err = capsys.readouterr()
    assert len(json.loads(out)["files"]) == 2
    assert err == (
        f"::error col=50,file={folder.name}/wrong.yaml,line=3,title=unknown-key::"
        "models[0].prot: unknown key%0Ahint: did you mean port?\n"
    )


def test_nobody_else_gets_annotations(folder, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "")
    assert main(["validate", "wrong.yaml"]) == 3
    assert "::" not in capsys.readouterr().err
