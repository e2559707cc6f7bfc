"""The checks of a node, in words and as JSON."""

from __future__ import annotations

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.checkup import Check
from llmgw_reconcile.render.checkup import checkup_document, checkup_text

LOW = Diagnostic(Severity.WARNING, "low-nofile", "gpu-07", "open files are limited to 1024", "raise it")
FULL = Diagnostic(Severity.ERROR, "disk-full", "/var/lib/llmgw", "10 MiB are free", "make room there")
NOTE = Diagnostic(Severity.NOTE, "fit-unknown", "a@0", "not estimated", "nothing")
CHECKS = (
    Check("gpus", "driver 570.86.15, CUDA 12.8, 8 x h100-80g", (NOTE,)),
    Check("limits", "open files 1024", (LOW,)),
    Check("records", "/var/lib/llmgw, nothing applied yet", (FULL, LOW)),
)


def test_a_line_for_each_check_and_then_what_was_found() -> None:
    assert checkup_text(CHECKS) == (
        "ok    gpus     driver 570.86.15, CUDA 12.8, 8 x h100-80g\n"
        "look  limits   open files 1024\n"
        "bad   records  /var/lib/llmgw, nothing applied yet\n"
        "\n"
        "error[disk-full] /var/lib/llmgw: 10 MiB are free\n"
        "  hint: make room there\n"
        "warning[low-nofile] gpu-07: open files are limited to 1024\n"
        "  hint: raise it\n"
        "warning[low-nofile] gpu-07: open files are limited to 1024\n"
        "  hint: raise it\n"
        "note[fit-unknown] a@0: not estimated\n"
        "  hint: nothing\n"
    )


def test_where_all_is_well_there_is_nothing_below() -> None:
    assert checkup_text([Check("gpus", "none, and no driver")]) == "ok    gpus  none, and no driver\n"


def test_at_forty_columns_no_line_is_longer() -> None:
    assert max(map(len, checkup_text(CHECKS, width=40).splitlines())) <= 40


def test_colour_marks_how_each_check_ended() -> None:
    text = checkup_text(CHECKS, color=True)
    assert [f"\x1b[{style}m{word}\x1b[0m" in text for style, word in ((32, "ok"), (33, "look"), (31, "bad"))] == [
        True
    ] * 3


def test_the_document_has_every_finding() -> None:
    document = checkup_document("gpu-07", CHECKS)
    assert (document["format_version"], document["node"]) == (1, "gpu-07")
    assert [(check["name"], check["worst"]) for check in document["checks"]] == [
        ("gpus", "note"),
        ("limits", "warning"),
        ("records", "error"),
    ]
    assert document["checks"][1]["findings"] == [LOW._asdict() | {"severity": "warning"}]
