"""Fixtures of the whole suite: a node made of folders, watched by innocent bystanders, and searched for left-overs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.node import Node
from tests.fakes.procs import bystanders

# Where an llmgw that forgets its options would write.
ELSEWHERE = [Path("/var/lib/llmgw"), Path("~/.local/state/llmgw").expanduser(), Path("~/.cache/llmgw").expanduser()]


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with eight H100s; afterwards nothing of it may be left, and nobody else may have been touched."""
    # Not tmp_path: engines put sockets below the state directory, and the names of sockets must be short.
    place = Node(Path(tempfile.mkdtemp(prefix="lg-")))
    before = _files_elsewhere()
    with bystanders():
        try:
            yield place
        finally:
            place.leave()
    assert _files_elsewhere() == before, "files were written outside the node"


def _files_elsewhere() -> set[str]:
    return {os.path.join(folder, name) for top in ELSEWHERE for folder, _, names in os.walk(top) for name in names}
