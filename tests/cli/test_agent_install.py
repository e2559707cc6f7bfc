"""Installing a unit, with a systemctl that only notes what it is told."""

from __future__ import annotations

import getpass
import os

import pytest

from llmgw_reconcile.cli.main import main

SYSTEMCTL = '#!/bin/sh\necho "$@" >> {folder}/told\n{ending}\n'


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of one's own, a systemctl, and no state directory but the default one."""
    (tmp_path / "node.yaml").write_text("version: 1\nmodels: []\n")
    for name, value in {"HOME": str(tmp_path), "PATH": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    for name in ("LLMGW_STATE_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with_systemctl(tmp_path, "exit 0")
    return tmp_path


def with_systemctl(folder, ending):
    program = folder / "systemctl"
    program.write_text(SYSTEMCTL.format(folder=folder, ending=ending))
    program.chmod(0o755)


def exec_start(text):
    return next(line for line in text.splitlines() if line.startswith("ExecStart=")).partition(" ")[2]


def test_a_unit_of_ones_own_is_written_and_enabled(home, capsys):
    assert main(["agent", "install", "node.yaml", "--user"]) == 0
    unit = home / ".config/systemd/user/llmgw-agent.service"
    assert exec_start(unit.read_text()) == f"agent run {home}/node.yaml"
    assert unit.stat().st_mode & 0o777 == 0o644
    assert (home / "told").read_text().splitlines() == [
        "--user --no-pager show --property=Version",
        "--user --no-pager daemon-reload",
        "--user --no-pager enable llmgw-agent.service",
    ]
    out, err = capsys.readouterr()
    assert out == f"installed {unit}\nstart it now: systemctl --user restart llmgw-agent.service\n"
    assert f"until `loginctl enable-linger {getpass.getuser()}` says otherwise" in err


def test_an_account_whose_units_start_at_boot_is_not_warned(home, capsys, monkeypatch):
    (home / getpass.getuser()).touch()
    monkeypatch.setattr("llmgw_reconcile.agent.install.LINGER_FOLDER", str(home))
    assert main(["agent", "install", "--user"]) == 0
    assert capsys.readouterr().err == ""


def test_a_unit_of_the_system_is_roots(home, capsys, monkeypatch):
    monkeypatch.setattr("llmgw_reconcile.agent.install.SYSTEM_FOLDER", str(home / "system"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["agent", "install", "node.yaml"]) == 3
    assert "a unit of the system needs root: --user" in capsys.readouterr().err
    assert not (home / "system").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_gets_a_unit_of_the_system(home, monkeypatch):
    monkeypatch.setattr("llmgw_reconcile.agent.install.SYSTEM_FOLDER", str(home / "system"))
    assert main(["agent", "install", "node.yaml"]) == 0
    assert "User=root" in (home / "system/llmgw-agent.service").read_text()
    assert (home / "told").read_text().splitlines()[-1] == "--no-pager enable llmgw-agent.service"


def test_where_systemd_does_not_run_nothing_is_written(home, capsys):
    with_systemctl(home, "echo 'Failed to connect to bus' >&2; exit 1")
    assert main(["agent", "install", "node.yaml", "--user"]) == 1
    assert capsys.readouterr().err == (
        "llmgw: cannot install llmgw-agent.service: systemctl: Failed to connect to bus; "
        "--print shows the unit, --crontab a line for cron\n"
    )
    assert not (home / ".config").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["node.yaml"], "agent run {home}/node.yaml"),
        (["node.yaml", "--interval", "5m"], "agent run {home}/node.yaml --interval 300"),
        (
            ["--git", "git@h:a", "--ref", "main", "--path", "n.yaml", "--verify-signatures"],
            "agent run --git git@h:a --ref main --path n.yaml --verify-signatures",
        ),
        (["node.yaml", "--metrics", "9401"], "agent run {home}/node.yaml --metrics 127.0.0.1:9401"),
        (["node.yaml", "--node", "gpu-07"], "agent run {home}/node.yaml --node gpu-07"),
        (["node.yaml", "--state-dir", "/srv/llmgw"], "agent run {home}/node.yaml --state-dir /srv/llmgw"),
        ([], "apply --last --no-wait"),
    ],
)
def test_a_unit_runs_what_the_command_line_said_from_any_folder(home, capsys, arguments, words):
    assert main(["agent", "install", "--print", *arguments]) == 0
    assert exec_start(capsys.readouterr().out) == words.format(home=home)
    assert not (home / "told").exists()


def test_a_state_directory_of_the_shells_is_named_in_the_unit(home, capsys, monkeypatch):
    monkeypatch.setenv("LLMGW_STATE_DIR", "/srv/llmgw")
    assert main(["agent", "install", "--print"]) == 0
    assert exec_start(capsys.readouterr().out) == "apply --last --no-wait --state-dir /srv/llmgw"


def test_a_crontab_line_is_printed_and_no_crontab_changed(home, capsys):
    assert main(["agent", "install", "node.yaml", "--crontab"]) == 0
    line = capsys.readouterr().out
    assert line.startswith("@reboot /")
    assert line.endswith(f"/llmgw agent run {home}/node.yaml\n")


def test_a_password_gets_into_no_unit(home, capsys):
    argv = ["agent", "install", "--print", "--git", "https://bot:s3cr3t@h/a", "--ref", "main", "--path", "n.yaml"]
    assert main(argv) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "s3cr3t" not in err


def test_half_a_repository_is_a_usage_error(home, capsys):
    assert main(["agent", "install", "--print", "--ref", "main"]) == 64
