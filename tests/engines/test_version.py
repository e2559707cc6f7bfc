"""Versions as engines print them, and pins as people write them."""

from __future__ import annotations

import pytest

from llmgw_reconcile.engines.version import at_least, is_pin, matches, version_in


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param("0.33.0\n", "0.33.0", id="vllm"),
        pytest.param(
            "INFO 05-01 10:00:00 [cuda.py:12] x 1.2\n0.33.1rc2.dev3+g12ab\n", "0.33.1rc2.dev3+g12ab", id="dev"
        ),
        pytest.param("sglang version: 0.5.23.post1\n", "0.5.23.post1", id="sglang"),
        pytest.param("version: 10434 (12ab34cd)\nbuilt with GNU 11.4.0 for Linux x86_64\n", "10434", id="llama-server"),
        pytest.param("version: b10434\n", "10434", id="llama-server-tag"),
        pytest.param("0.32.0+cpu", "0.32.0+cpu", id="local-part"),
        pytest.param(
            "0.32.0\nW0501 12:30:22.540000 1010 torch/_x.py:53] none found 1.2\n", "0.32.0", id="noise-behind"
        ),
        pytest.param("vLLM 0.9.1\n", "0.9.1", id="behind-its-name"),
        pytest.param("version: 0.1.0-dev (build 1, commit 12ab)\n", "0.1.0-dev", id="llama-server-of-a-wheel"),
        pytest.param("usage: engine [options]", None, id="none"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_version_is_found_in_what_was_printed(text: str, version: str | None) -> None:
    assert version_in(text) == version


@pytest.mark.parametrize(
    ("pin", "met", "not_met"),
    [
        pytest.param(
            "0.33.*", ("0.33.0", "0.33.1", "0.33.0rc1", "0.33.0+cu129", "0.33"), ("0.32.9", "0.330.0"), id="glob"
        ),
        pytest.param("0.33.0", ("0.33.0", "0.33.0+cu129"), ("0.33.1", "0.33.0rc1", "0.33.0.post1"), id="exact"),
        pytest.param("0.33.0+cu129", ("0.33.0+cu129",), ("0.33.0", "0.33.0+cpu"), id="exact-with-local-part"),
        pytest.param("==0.33.*", ("0.33.4",), ("0.34.0",), id="equals"),
        pytest.param(">=0.32,<0.34", ("0.32.0", "0.33.5"), ("0.31.9", "0.34.0"), id="range"),
        pytest.param("~=0.5.20", ("0.5.20", "0.5.23.post1"), ("0.5.19", "0.6.0"), id="compatible"),
        pytest.param("!=0.33.1", ("0.33.0",), ("0.33.1",), id="all-but"),
        pytest.param(">10000", ("10434",), ("9999",), id="build-numbers"),
        pytest.param("<=0.10", ("0.9.2", "0.10.0"), ("0.10.1",), id="numbers-not-text"),
        pytest.param("*", ("0.1", "10434"), (), id="any"),
    ],
)
def test_a_pin_names_versions(pin: str, met: tuple[str, ...], not_met: tuple[str, ...]) -> None:
    assert is_pin(pin)
    assert [version for version in met if not matches(pin, version)] == []
    assert [version for version in not_met if matches(pin, version)] == []


@pytest.mark.parametrize("text", [">=", "", "=0.33", "0.33 0.34", ",", "0.33,,0.34"])
def test_what_is_no_pin_is_known(text: str) -> None:
    assert not is_pin(text)


def test_versions_are_ordered_by_their_numbers() -> None:
    assert at_least("0.10.0", "0.9.2")
    assert not at_least("0.9.2", "0.10")
    assert at_least("0.14", "0.14.0")
