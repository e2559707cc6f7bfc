"""The version of a Python engine, without starting Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw_reconcile.discovery.package_version import package_version


def environment(root: Path, *packages: str) -> Path:
    """A virtual environment with a console script of vLLM's."""
    for name in packages:
        (root / "lib/python3.12/site-packages" / name).mkdir(parents=True)
    (root / "bin").mkdir(parents=True)
    script = root / "bin/vllm"
    script.write_text(f"#!{root}/bin/python3\nimport sys\n")
    return script


def test_the_name_of_the_packages_folder_tells_it(tmp_path) -> None:
    script = environment(tmp_path / "v", "vllm-0.33.0+cu129.dist-info", "vllm_flash-1.0.dist-info", "vllm")
    assert package_version(str(script), "vllm") == "0.33.0+cu129"
    assert package_version(f"{tmp_path}/v/bin/python3", "vllm") == "0.33.0+cu129"


def test_a_link_to_a_script_elsewhere_is_understood_by_its_first_line(tmp_path) -> None:
    script = environment(tmp_path / "v", "vllm-0.32.0.dist-info")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/vllm").symlink_to(script)
    assert package_version(f"{tmp_path}/bin/vllm", "vllm") == "0.32.0"


@pytest.mark.parametrize("text", ["", "#!/usr/bin/env python3\n", "\x7fELF", "#!\n"])
def test_what_cannot_be_told_is_unknown(tmp_path, text: str) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/vllm").write_text(text)
    assert package_version(f"{tmp_path}/bin/vllm", "vllm") is None
    assert package_version(f"{tmp_path}/gone/vllm", "vllm") is None
