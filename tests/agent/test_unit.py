"""Units and crontab lines: their text to the letter, and what systemd itself says of them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys

import pytest

from llmgw_reconcile.agent.unit import Service, crontab_line, quoted, unit_text

LLMGW = "/opt/llmgw/bin/llmgw"
AGENT = Service((LLMGW, "agent", "run", "/etc/llmgw/node.yaml"), True, "root", ("/var/lib/llmgw", "/etc/llmgw"))
BOOT = Service((LLMGW, "apply", "--last", "--no-wait"), False, "root", ("/var/lib/llmgw",))
OWN = AGENT._replace(user=None)

SYSTEM_UNIT = """\
[Unit]
Description=llmgw: hold this node to its state file
Wants=network-online.target
# The cards must be up: the driver's daemon, and the fabric of a node with NVSwitches.
After=network-online.target nvidia-persistenced.service nvidia-fabricmanager.service
RequiresMountsFor=/var/lib/llmgw /etc/llmgw
# It is started again for ever.
StartLimitIntervalSec=0

[Service]
Type=exec
User=root
ExecStart=/opt/llmgw/bin/llmgw agent run /etc/llmgw/node.yaml
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=5
RestartPreventExitStatus=64
# Engines and their supervisors live in this unit's group, and outlive its end and its restart.
KillMode=process
Delegate=yes
OOMPolicy=continue
# What engines get: threads, descriptors, and memory that RDMA may pin.
TasksMax=infinity
LimitNOFILE=1048576
LimitMEMLOCK=infinity

[Install]
WantedBy=multi-user.target
"""


def lines_of(service):
    return [line for line in unit_text(service).splitlines() if line and not line.startswith("#")]


def test_a_system_unit_to_the_letter():
    assert unit_text(AGENT) == SYSTEM_UNIT


def test_a_unit_of_a_users_own_names_no_unit_of_the_system():
    gone = set(lines_of(AGENT)) - set(lines_of(OWN))
    assert gone == {
        "Wants=network-online.target",
        "After=network-online.target nvidia-persistenced.service nvidia-fabricmanager.service",
        "RequiresMountsFor=/var/lib/llmgw /etc/llmgw",
        "User=root",
        "WantedBy=multi-user.target",
    }
    assert set(lines_of(OWN)) - set(lines_of(AGENT)) == {"WantedBy=default.target"}


def test_a_boot_unit_runs_once_and_is_not_tried_again():
    lines = lines_of(BOOT)
    assert lines[lines.index("[Service]") + 1 :][:4] == [
        "Type=oneshot",
        "RemainAfterExit=yes",
        "User=root",
        "ExecStart=/opt/llmgw/bin/llmgw apply --last --no-wait",
    ]
    assert not [line for line in lines if line.startswith("Restart")]
    assert {"KillMode=process", "LimitMEMLOCK=infinity", "TasksMax=infinity"} <= set(lines)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("/etc/llmgw/node.yaml", "/etc/llmgw/node.yaml"),
        ("ssh://git@host:22/a+b", "ssh://git@host:22/a+b"),
        ("a b", '"a b"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$$HOME"'),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        (";", '";"'),
        ("", '""'),
    ],
)
def test_a_word_is_quoted_for_systemd(word, text):
    assert quoted(word) == text


def test_a_crontab_line_is_for_the_shell_and_has_no_bare_percent_sign():
    line = crontab_line([LLMGW, "agent", "run", "/srv/a b/100%.yaml"])
    assert line == "@reboot /opt/llmgw/bin/llmgw agent run '/srv/a b/100\\%.yaml'"
    command = line.removeprefix("@reboot ").replace("\\%", "%")  # what cron hands to the shell
    assert shlex.split(command) == [LLMGW, "agent", "run", "/srv/a b/100%.yaml"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("service", [AGENT, BOOT, OWN], ids=["agent", "boot", "own"])
def test_systemd_finds_nothing_wrong_with_a_unit(tmp_path, service):
    strange = ("/srv/a b/100%/$x/node.yaml",)
    unit = tmp_path / service.name
    # The program must exist for systemd to be content.
    unit.write_text(
        unit_text(service._replace(command=(sys.executable, *service.command[1:], *strange), mounts=strange))
    )
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert [line for line in done.stderr.splitlines() if "llmgw" in line] == []
    assert done.returncode == 0
