"""Every diagnostic code of the package is explained, and nothing else is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw_reconcile.render.explanations import explanation_of, explanations

PACKAGE = Path(__file__).parents[2] / "llmgw_reconcile"
TABLES = PACKAGE / "render" / "explanations"
CODE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+")

CARRIERS = {"Diagnostic", "Finding", "Broken"}

# Words of that form that are no codes, in modules that make diagnostics. A new one is explained, or belongs here.
NO_CODES = {
    *("nvidia-smi", "llama-server", "llama-cpp", "compressed-tensors", "utf-8", "utf-16-be", "utf-16-le"),
    *("left-over", "not-visible", "other-llmgw"),
}
PREFIXES = {"gpu-health"}  # the first part of a code


def texts_of(path: Path) -> Iterator[str]:
    """The string literals of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def makes_diagnostics(path: Path) -> bool:
    """Whether a module imports, or defines, what carries a code."""
    tree = ast.walk(ast.parse(path.read_text()))
    imported = {name.name for node in tree if isinstance(node, ast.ImportFrom) for name in node.names}
    return bool(imported & CARRIERS)


MODULES = [path for path in PACKAGE.rglob("*.py") if TABLES not in path.parents]
TEXTS = {text for path in MODULES for text in texts_of(path)}
USED = {
    text: path.name for path in MODULES if makes_diagnostics(path) for text in texts_of(path) if CODE.fullmatch(text)
}


@pytest.mark.parametrize("code", sorted(USED.keys() - NO_CODES))
def test_a_code_is_explained(code: str) -> None:
    where = f"{USED[code]} has {code!r}"
    assert code in explanations(), (
        f"{where}: explain it in render/explanations/, or add it to NO_CODES if it is no code"
    )


@pytest.mark.parametrize("code", explanations())
def test_an_explanation_is_of_a_code_that_is_in_use(code: str) -> None:
    assert code in TEXTS | PREFIXES, f"nothing says {code} any more: take its explanation out"


@pytest.mark.parametrize("code", explanations())
def test_an_explanation_is_made_of_sentences(code: str) -> None:
    cause, cure = explanations()[code]
    for text in (cause, cure):
        assert re.match(r"[A-Z`]", text)
        assert text.endswith(".")
        assert text.isascii()  # a terminal may know nothing else
        assert text.isprintable()
    assert len(cause) + len(cure) <= 330


def test_what_follows_a_colon_does_not_count() -> None:
    assert explanation_of("gpu-health:GPU-5f3c") == explanations()["gpu-health"]


def test_an_unknown_code_has_none() -> None:
    assert explanation_of("no-such-code") is None
