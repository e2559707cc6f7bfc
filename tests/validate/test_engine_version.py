"""What the installed engine says against a start: another version than the pinned one, flags that it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.engines.help_text import parse_help
from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.checkpoint import Checkpoint, Stored
from llmgw_reconcile.model.desired import EngineKind, FileArg, SecretRef
from llmgw_reconcile.model.installed import Installed
from llmgw_reconcile.validate.facts import EngineFacts
from llmgw_reconcile.validate.node_rules import check_engine
from tests.engines.helps import VLLM_HELP
from tests.fakes.placed import A100, a_node, a_placement, gpu

ERROR, WARNING = Severity.ERROR, Severity.WARNING
LISTED = Installed("0.33.0", parse_help(VLLM_HELP))
ACCEPT = "a plugin's flag is let through by `accept: [unknown-flag]`"


def found(installed: Installed, *, was_asked: bool = True, **fields: Any) -> list[Diagnostic]:
    placement = a_placement(gpu(0, A100), **fields)
    whole = Checkpoint("/m", weights=(Stored("BF16", 1 << 30),))
    facts = EngineFacts("/x", checkpoint=whole, needs_start=True, installed=installed, was_asked=was_asked)
    return list(check_engine(placement, facts, a_node(gpu(0, A100))))


def told(diagnostics: list[Diagnostic]) -> list[tuple[Severity, str, str, str]]:
    return [(d.severity, d.code, d.message, d.hint) for d in diagnostics]


@pytest.mark.parametrize(
    ("installed", "was_asked", "severity", "message"),
    [
        pytest.param(Installed("0.33.4"), True, None, "", id="met"),
        pytest.param(
            Installed("0.32.1"),
            True,
            ERROR,
            "engine_version 0.33.*: vLLM 0.32.1 is installed (/opt/engine/bin/engine)",
            id="another-version",
        ),
        pytest.param(
            Installed(),
            True,
            ERROR,
            "engine_version 0.33.*: /opt/engine/bin/engine does not name its version",
            id="no-answer",
        ),
        pytest.param(
            Installed(),
            False,
            WARNING,
            "engine_version 0.33.*: which version is installed is not known yet (/opt/engine/bin/engine)",
            id="not-asked-yet",
        ),
    ],
)
def test_a_pin_is_held_against_the_installed_version(
    installed: Installed, was_asked: bool, severity: Severity | None, message: str
) -> None:
    diagnostics = found(installed, was_asked=was_asked, engine_version="0.33.*")
    expected = [] if severity is None else [(severity, "engine-version", message)]
    assert [(d.severity, d.code, d.message) for d in diagnostics] == expected


def test_a_pin_cannot_be_accepted_away() -> None:
    pinned = found(Installed("0.32.1"), engine_version="0.33.*", accept=("unknown-flag", "does-not-fit"))
    assert [d.code for d in pinned] == ["engine-version"]


def test_an_unknown_flag_blocks_and_names_the_successor_and_the_code() -> None:
    assert told(found(LISTED, args=("--task", "generate"))) == [
        (
            ERROR,
            "unknown-flag",
            "vLLM 0.33.0 has no --task: gone between 0.12 and 0.16",
            f"write --runner, or --convert; {ACCEPT}",
        )
    ]
    assert told(found(LISTED, args=("--no-such-thing-at-all",))) == [
        (ERROR, "unknown-flag", "vLLM 0.33.0 has no --no-such-thing-at-all", ACCEPT)
    ]


def test_a_flag_that_llmgw_writes_itself_is_judged_as_well() -> None:
    assert [d.message for d in found(LISTED, revision="v2")] == ["vLLM 0.33.0 has no --revision"]


def test_a_plugins_flag_can_be_accepted() -> None:
    assert found(LISTED, args=("--plugin-flag", "1"), accept=("unknown-flag",)) == []


def test_a_deprecated_flag_is_only_told() -> None:
    assert told(found(Installed("0.33.0"), args=("--log-config-file", "/l"))) == [
        (WARNING, "deprecated-flag", "--log-config-file is deprecated in vLLM 0.33.0", "write --logging-config")
    ]


def test_files_and_secrets_among_the_words_are_values() -> None:
    key = SecretRef("file", "/k")
    args = ("--compilation-config", FileArg("/-x.json", "sha256:0"))
    assert found(LISTED, args=args, api_key=key) == []
    assert found(Installed("0.5.23"), engine=EngineKind.SGLANG, api_key=key) == []


def test_of_an_engine_that_did_not_answer_nothing_is_refused() -> None:
    assert found(Installed(), args=("--no-such-flag",)) == []
