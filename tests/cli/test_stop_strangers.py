"""A pid file that was written over by hand: the process it names now is left alone, and the engine is still found."""

from __future__ import annotations

import json
import subprocess

from llmgw_reconcile.host.proc import identify
from tests.fakes.node import Node


def test_a_stop_never_signals_a_stranger_that_the_pid_file_was_made_to_name(node: Node) -> None:
    node.apply(node.state(node.model()))
    engine = node.engine()["pid"]
    path = next(node.root.rglob("pid.json"))
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True, cwd="/")
    try:
        process = identify(stranger.pid)
        assert process is not None
        record = json.loads(path.read_text())
        named = {"pid": process.pid, "ticks": process.ticks, "pgid": process.pid, "sid": process.pid}
        path.write_text(json.dumps(record | named | {"members": [list(process)]}))
        node.llmgw("stop", "--all")
        assert stranger.poll() is None
        assert identify(engine) is None
    finally:
        stranger.kill()
        stranger.wait()
