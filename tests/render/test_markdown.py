"""A plan in Markdown, word for word, and as a Markdown reader of its own sees one that somebody means ill with."""

from __future__ import annotations

from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.plan.actions import Action, ActionKind, FieldChange, Plan
from llmgw_reconcile.render.markdown import SIZE_LIMIT, plan_markdown
from tests.plan.builders import error

REPLACE = Action(
    ActionKind.REPLACE,
    "llama-70b@0",
    "max_model_len changed",
    changes=(
        FieldChange("max_model_len", 16384, 32768, forces_replace=True),
        FieldChange("env.HF_TOKEN", "(secret)", "(secret)", forces_replace=True),
        FieldChange("labels.team", None, "search", forces_replace=False),
    ),
    gpus=("GPU-0", "GPU-1"),
    gpu_labels=("0", "1"),
    gpu_classes=("h100-80g", "h100-80g"),
    port=8000,
)
START = Action(
    ActionKind.START,
    "embed@0",
    "not running",
    command=("/opt/vllm/bin/vllm", "serve", "org/embed", "--port", "8021", "--api-key", "(secret)"),
    port=8021,
)
BLOCKED = Action(
    ActionKind.BLOCKED,
    "big@0",
    "blocked",
    diagnostics=(
        error("no-executable", "cannot find sglang on PATH", "install it", where="big@0"),
        error("port-taken", "port 8030 is held by pid 77", where="big@0"),
    ),
)
KEPT = Action(
    ActionKind.KEEP,
    "old@0",
    "as wanted",
    at_next_start=(FieldChange("executable", "/a/vllm", "/b/vllm", forces_replace=False),),
)
SAME = Action(ActionKind.KEEP, "same@0", "as wanted")
WARNING = Diagnostic(Severity.WARNING, "nofile-low", "gpu-07", "nofile is 1024", "raise it")


def plan(*actions: Action, **changed: Any) -> Plan:
    return Plan("gpu-07", "states/node.yaml", actions, digest="sha256:9c0e41aa")._replace(**changed)


def test_a_plan_is_a_table_with_details_to_unfold() -> None:
    text = plan_markdown(plan(REPLACE, START, BLOCKED, KEPT, SAME, diagnostics=(WARNING,)))
    assert text == (
        "### Plan for `gpu-07` from `states/node.yaml`\n"
        "\n"
        "**1 to start, 1 to replace, 0 to stop, 0 to adopt; 2 unchanged, 1 blocked.**\n"
        "\n"
        "| | Engine | Action | Why | GPUs | Port |\n"
        "| :-: | --- | --- | --- | --- | --: |\n"
        "| `-/+` | `llama-70b@0` | replace | `max_model_len changed` | `0, 1 (h100-80g)` | 8000 |\n"
        "| `+` | `embed@0` | start | `not running` |  | 8021 |\n"
        "| `!` | `big@0` | blocked | `cannot find sglang on PATH; port 8030 is held by pid 77` |  |  |\n"
        "|  | `old@0` | keep | `as wanted` |  |  |\n"
        "\n"
        "<details>\n"
        "<summary><code>llama-70b@0</code> replace</summary>\n"
        "\n"
        "```diff\n"
        "- max_model_len: 16384\n"
        "+ max_model_len: 32768  # forces replacement\n"
        "! env.HF_TOKEN: (secret) changed  # forces replacement\n"
        "- labels.team: (unset)\n"
        "+ labels.team: search\n"
        "```\n"
        "\n"
        "</details>\n"
        "\n"
        "<details>\n"
        "<summary><code>embed@0</code> start</summary>\n"
        "\n"
        "```sh\n"
        "/opt/vllm/bin/vllm serve org/embed --port 8021 --api-key (secret)\n"
        "```\n"
        "\n"
        "</details>\n"
        "\n"
        "<details>\n"
        "<summary><code>big@0</code> blocked</summary>\n"
        "\n"
        "```text\n"
        "error[no-executable] big@0: cannot find sglang on PATH\n"
        "  hint: install it\n"
        "error[port-taken] big@0: port 8030 is held by pid 77\n"
        "```\n"
        "\n"
        "</details>\n"
        "\n"
        "<details>\n"
        "<summary><code>old@0</code> keep</summary>\n"
        "\n"
        "```diff\n"
        "# at next start\n"
        "- executable: /a/vllm\n"
        "+ executable: /b/vllm\n"
        "```\n"
        "\n"
        "</details>\n"
        "\n"
        "```text\n"
        "warning[nofile-low] gpu-07: nofile is 1024\n"
        "  hint: raise it\n"
        "```\n"
        "\n"
        "Plan `sha256:9c0e41aa`: `llmgw apply --expect DIGEST` carries out exactly this one.\n"
    )


def test_no_changes_are_one_sentence_and_the_digest() -> None:
    assert plan_markdown(plan(SAME)) == (
        "### Plan for `gpu-07` from `states/node.yaml`\n"
        "\n"
        "**No changes. 1 engine runs as the state file says.**\n"
        "\n"
        "Plan `sha256:9c0e41aa`\n"
    )


# What somebody may write into a file of a pull request, or name a path.
EVIL = (
    "`` ` ```",
    "a|b",
    "a\\|b",
    "</code></summary></details><script>alert(1)</script>",
    "[click](https://evil.example) ![x](https://evil.example/x.png)",
    "@everyone <@alice> https://evil.example www.evil.example #1 !1",
    "**bold** _it_ ~~gone~~ <!-- hidden",
    "line\n\n# heading\n- item",
    "```\n</details>\n\n# heading",
    "    indented",
    "-- \x1b[2J",
)


def tokens(text: str) -> list[Token]:
    """All tokens of a reader of CommonMark with GitHub's tables and bare links, inline ones too."""
    reader = MarkdownIt("commonmark").enable("table").enable("strikethrough")
    return [inner for token in reader.parse(text) for inner in (token, *(token.children or ()))]


def poisoned(text: str) -> Plan:
    change = FieldChange(text, text, [text], forces_replace=True)
    return plan(
        Action(
            ActionKind.REPLACE,
            text,
            text,
            changes=(change,),
            at_next_start=(change,),
            gpus=("GPU-0",),
            gpu_labels=(text,),
            gpu_classes=(text,),
            port=8000,
        ),
        Action(ActionKind.START, text, text, command=("vllm", text)),
        Action(ActionKind.BLOCKED, text, text, diagnostics=(error(text, text, text, where=text),)),
        node=text,
        state=text,
        digest=text,
        diagnostics=(Diagnostic(Severity.WARNING, text, text, text, text),),
    )


@pytest.mark.parametrize("text", EVIL)
def test_whatever_stands_in_a_file_stays_text(text: str) -> None:
    found = tokens(plan_markdown(poisoned(text)))
    kinds = [token.type for token in found]
    assert kinds.count("table_open") == 1
    assert kinds.count("tr_open") == 1 + 3
    assert kinds.count("td_open") == 3 * 6
    assert kinds.count("heading_open") == 1
    assert kinds.count("fence") == 4  # two changes and one command, what blocks, and the warning
    assert not {"link_open", "image", "em_open", "s_open", "list_item_open", "code_block"} & set(kinds)
    assert kinds.count("strong_open") == 1
    html = [token.content for token in found if token.type == "html_block"]
    assert [line for block in html for line in block.splitlines() if not line.startswith("<summary><code>")] == [
        "<details>",
        "</details>",
    ] * 3
    inline = {token.content for token in found if token.type == "html_inline"}
    assert inline <= {"<code>", "</code>"}


@pytest.mark.parametrize("text", EVIL)
def test_a_person_is_mentioned_in_code_only(text: str) -> None:
    """GitHub finds mentions and bare links in text, and in no code."""
    depth, outside = 0, []
    for token in tokens(plan_markdown(poisoned(text))):
        if token.type == "html_inline":
            depth += 1 if token.content == "<code>" else -1
        elif token.type == "text" and depth == 0:
            outside.append(token.content)
    assert not any("@" in words or "evil" in words for words in outside)


def test_a_text_with_a_bar_is_read_as_it_was() -> None:
    text = plan_markdown(plan(START._replace(reason="a|b `c` \\ <d>")))
    assert "<code>a&#124;b &#96;c&#96; &#92; &#60;d&#62;</code>" in text


def test_details_that_a_comment_has_no_room_for_are_left_out_and_counted() -> None:
    long = START._replace(command=("x" * 400,) * 60)
    text = plan_markdown(plan(*(long._replace(engine=f"embed@{number}") for number in range(9))))
    assert len(text) <= SIZE_LIMIT
    assert text.count("<details>") == text.count("</details>") == 2
    assert "The details of 7 more are left out here: `llmgw plan` shows them.\n" in text
    assert all(f"| `embed@{number}` |" in text for number in range(9))
    assert text.endswith("carries out exactly this one.\n")
