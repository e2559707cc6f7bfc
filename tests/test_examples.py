"""The pipelines of examples/: YAML as their services read it, and their shell lines, run here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = yaml.load(
    (ROOT / "examples" / "github-actions.yaml").read_text(), Loader=yaml.BaseLoader
)  # `on` is no boolean
GITLAB = yaml.load((ROOT / "examples" / "gitlab-ci.yml").read_text(), Loader=yaml.BaseLoader)


def github_step(job: str, name: str) -> str:
    (found,) = (step["run"] for step in GITHUB["jobs"][job]["steps"] if step.get("name") == name)
    return found


VALIDATE = {"github": github_step("plan", "Validate"), "gitlab": GITLAB["plan"]["script"][0]}
PLAN = {"github": github_step("plan", "Plan"), "gitlab": GITLAB["plan"]["script"][1]}
COMMENT = {"github": github_step("plan", "Comment"), "gitlab": "\n".join(GITLAB["plan"]["after_script"])}
APPLY = {"github": github_step("apply", "Apply"), "gitlab": "\n".join(GITLAB["apply"]["script"])}

# What it would be on a node: ssh hands its last argument to a shell there.
SSH = '#!/bin/sh\nfor last; do :; done\necho "ssh $*" >> "$NOTES"\nexec sh -c "$last"\n'
LLMGW = '#!/bin/sh\necho "llmgw $*" >> "$NOTES"\ncase "$*" in *gpu-07*) exit ${GPU_07_ENDS_WITH:-0};; esac\n'
TOOL = '#!/bin/sh\necho "$(basename "$0") $*" >> "$NOTES"\n'


@pytest.fixture
def checkout(tmp_path):
    """The repository that the examples describe, with two nodes."""
    nodes = tmp_path / "nodes"
    nodes.mkdir()
    for node in ("gpu-07", "gpu-08"):
        (nodes / f"{node}.yaml").write_text((ROOT / "states" / "node.yaml").read_text())
        (nodes / f"{node}.snapshot.json").write_text((ROOT / "states" / "node.snapshot.json").read_text())
    (tmp_path / "bin").mkdir()
    return tmp_path


def tool(checkout, name, text):
    path = checkout / "bin" / name
    path.write_text(text)
    path.chmod(0o755)


def run(checkout, script, **variables):
    """As both services do: bash, ended by the first failure."""
    own = f"{checkout}/bin:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    environment = {"PATH": own, "HOME": str(checkout), "NOTES": str(checkout / "notes"), **variables}
    options = ["-e", "-o", "pipefail", "-c", script]
    return subprocess.run(["bash", *options], cwd=checkout, env=environment, capture_output=True, text=True)


def notes(checkout):
    return (checkout / "notes").read_text()


both = pytest.mark.parametrize("service", ["github", "gitlab"])


@both
def test_valid_states_pass(checkout, service):
    done = run(checkout, VALIDATE[service])
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [f"nodes/gpu-0{number}.yaml: valid, 3 models, 4 engines" for number in (7, 8)],
    )


@both
def test_a_wrong_state_stops_the_pipeline_with_file_and_line(checkout, service):
    (checkout / "nodes" / "gpu-08.yaml").write_text("version: 1\nmodls: []\n")
    done = run(checkout, VALIDATE[service], GITHUB_ACTIONS="true")
    assert done.returncode == 3
    assert "::error col=1,file=nodes/gpu-08.yaml,line=2,title=unknown-key::" in done.stderr


@both
def test_each_node_is_planned_against_its_snapshot(checkout, service):
    assert run(checkout, PLAN[service]).returncode == 0
    text = (checkout / "plan.md").read_text()
    assert text.count("**2 to start, 1 to replace, 1 to stop, 0 to adopt; 1 unchanged, 0 blocked.**") == 2
    assert [f"from `nodes/gpu-0{number}.yaml`" in text for number in (7, 8)] == [True, True]


@both
def test_a_node_that_cannot_be_planned_fails_the_job_and_not_the_plans_of_the_others(checkout, service):
    (checkout / "nodes" / "gpu-07.snapshot.json").unlink()
    assert run(checkout, PLAN[service]).returncode == 3
    assert "from `nodes/gpu-08.yaml`" in (checkout / "plan.md").read_text()


def test_a_pull_request_gets_one_comment_that_follows_it(checkout):
    tool(checkout, "gh", TOOL)
    (checkout / "plan.md").write_text("x" * 70_000)
    assert run(checkout, COMMENT["github"], PULL_REQUEST="12").returncode == 0
    assert notes(checkout) == "gh pr comment 12 --edit-last --create-if-none --body-file comment.md\n"
    assert (checkout / "comment.md").stat().st_size == 60_000


def test_a_merge_request_gets_a_note(checkout):
    tool(checkout, "curl", TOOL)
    (checkout / "plan.md").write_text("plan\n")
    variables = {"CI_API_V4_URL": "https://git.example.org/api/v4", "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "12"}
    assert run(checkout, COMMENT["gitlab"], COMMENT_TOKEN="t", **variables).returncode == 0
    assert notes(checkout) == (
        "curl --fail --silent --show-error --output note.json --header PRIVATE-TOKEN: t "
        "--data-urlencode body@plan.md https://git.example.org/api/v4/projects/3/merge_requests/12/notes\n"
    )


@both
def test_a_merge_brings_the_files_to_each_node_and_applies_them_there(checkout, service):
    tool(checkout, "ssh", SSH)
    tool(checkout, "llmgw", LLMGW)
    (checkout / "key").touch()
    there = checkout / "etc"
    done = run(checkout, APPLY[service], **variables_of_an_apply(checkout))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "== gpu-07\n== gpu-08\n"
    assert [line for line in notes(checkout).splitlines() if line.startswith("llmgw")] == [
        f"llmgw apply {there}/nodes/gpu-0{number}.yaml --lock-timeout 10m --reason commit-0f0f0f" for number in (7, 8)
    ]
    assert notes(checkout).count("root@gpu-07 ") == 1
    assert (there / "nodes" / "gpu-08.yaml").read_text() == (checkout / "nodes" / "gpu-08.yaml").read_text()


@both
def test_a_node_that_fails_fails_the_job_and_not_the_other_nodes(checkout, service):
    tool(checkout, "ssh", SSH)
    tool(checkout, "llmgw", LLMGW)
    (checkout / "key").touch()
    done = run(checkout, APPLY[service], GPU_07_ENDS_WITH="1", **variables_of_an_apply(checkout))
    assert done.returncode == 1
    assert "gpu-08.yaml" in notes(checkout)


def variables_of_an_apply(checkout):
    return {
        "ACCOUNT": "root",
        "FOLDER": str(checkout / "etc"),
        "COMMIT": "0f0f0f",
        "CI_COMMIT_SHA": "0f0f0f",
        "SSH_KEY": str(checkout / "key"),
        "KNOWN_HOSTS": str(checkout / "known_hosts"),
    }


def test_a_key_is_written_for_its_owner_alone(checkout):
    assert run(checkout, github_step("apply", "Trust"), SSH_KEY="k", KNOWN_HOSTS="h").returncode == 0
    key = checkout / ".ssh" / "id_ed25519"
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("k\n", 0o600)


def test_only_a_push_to_the_main_branch_applies():
    assert GITHUB["jobs"]["plan"]["if"] == "github.event_name == 'pull_request'"
    assert GITHUB["jobs"]["apply"]["if"] == "github.event_name == 'push'"
    assert GITHUB["on"]["push"]["branches"] == ["main"]
    assert GITLAB["plan"]["rules"][0]["if"] == '$CI_PIPELINE_SOURCE == "merge_request_event"'
    assert GITLAB["apply"]["rules"][0]["if"] == "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"


def test_a_pull_request_gets_no_more_rights_than_to_be_commented_on():
    assert GITHUB["permissions"] == {"contents": "read"}
    assert GITHUB["jobs"]["plan"]["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert "secrets." not in str(GITHUB["jobs"]["plan"])
