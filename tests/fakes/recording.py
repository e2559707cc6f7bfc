"""A node made of what `llmgw agent record` wrote on another one: its tools answer and its kernel files read alike."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.fakes.nvidia_smi import install_nvidia_smi


def install_recording(folder: Path, recording: dict[str, Any]) -> Path:
    """Write the tool into the folder and the kernel files below `sys` in it, which is returned."""
    install_nvidia_smi(folder, {"recorded": recording["tools"]})
    root = folder / "sys"
    root.mkdir()
    record = recording["sys"]
    for name, place in record["places"].items():
        (root / place).mkdir(parents=True, exist_ok=True)
        _link(root / name, os.path.relpath(root / place, (root / name).parent))
    for name, target in record["targets"].items():
        if not (root / name).exists():
            _link(root / name, target)
    for name, text in record["texts"].items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, entries in record["names"].items():
        for entry in entries:
            if not os.path.lexists(root / name / entry):
                (root / name / entry).mkdir(parents=True)
        (root / name).mkdir(parents=True, exist_ok=True)
    return root


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(path):
        path.symlink_to(target)
