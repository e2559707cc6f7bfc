"""Only who is ready at this moment can be routed to: by all four answers, and not when it is about to stop."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.cli import endpoints
from llmgw_reconcile.discovery.routable import Routable
from llmgw_reconcile.errors import LlmgwError, NodeError
from llmgw_reconcile.model.endpoint import Endpoint
from llmgw_reconcile.workflow.host import this_host
from tests.fakes.node import Json, Node
from tests.fakes.procs import until


def listed(node: Node, *args: Any, code: int = 0) -> dict[str, Json]:
    document = node.llmgw("endpoints", "-o", "json", *args, code=code).json()
    return {row["engine"]: row for row in document["endpoints"]}


@contextmanager
def watching(node: Node, *args: Any) -> Iterator[Path]:
    """`llmgw endpoints --watch` under way; the file that it keeps."""
    file = node.root / "endpoints.conf"
    process = node.begin("endpoints", "--watch", file, *args)
    try:
        until(file.exists, what="the file is not written")
        yield file
        assert process.poll() is None, process.communicate()
    finally:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 143
    assert "Traceback" not in err


def test_who_is_ready_is_listed_and_nobody_else(node: Node) -> None:
    slow = {"start_timeout": "2s"}
    good, loading = node.model("good"), node.model("loading", stub={"LISTEN_DELAY": 600})
    sick, held = node.model("sick"), node.model("held")
    failed = node.model("failed", stub={"HEALTH": 503}, readiness=slow)
    node.apply(node.state(good, sick, held, failed), code=1)
    node.apply(node.state(good, sick, held, failed, loading), "--no-wait", "--target", "loading")
    node.llmgw("stop", "held")
    node.tell("sick", HEALTH=503)
    assert listed(node) == {
        "good@0": {
            "engine": "good@0",
            "model": "good",
            "kind": "vllm",
            "served": ["good"],
            "host": "127.0.0.1",
            "port": good["port"],
            "url": f"http://127.0.0.1:{good['port']}",
            "api_key": None,
            "labels": {},
        }
    }
    node.tell("sick")
    assert sorted(listed(node)) == ["good@0", "sick@0"]


def test_an_engine_that_lost_its_supervisor_serves_all_the_same(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.kill(node.supervisor_of(node.engine()["pid"]))
    assert node.engine()["phase"] == "orphaned"
    assert list(listed(node)) == ["chat@0"]


def test_an_engine_that_serves_another_model_is_not_routed_to(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.tell(MODELS='["another"]')
    assert listed(node) == {}
    assert node.llmgw("endpoints").out.endswith("is ready now.\n")


def test_a_key_is_used_to_ask_and_named_by_its_place(node: Node) -> None:
    key = node.root / "key"
    key.write_text("c4n4ry-of-a-key\n")
    key.chmod(0o600)
    node.apply(node.state(node.model(api_key={"file": str(key)}, labels={"team": "search"})))
    row = listed(node)["chat@0"]
    assert (row["api_key"], row["labels"]) == ({"file": str(key)}, {"team": "search"})
    for output in ("text", "json", "prometheus-sd", "litellm", "nginx"):
        result = node.llmgw("endpoints", "-o", output)
        assert f":{row['port']}" in result.out
        assert "c4n4ry" not in result.text


def test_who_listens_everywhere_is_reached_by_the_name_that_others_know(node: Node) -> None:
    node.apply(node.state(node.model(host="0.0.0.0")))
    assert listed(node, "--node", "gpu-07")["chat@0"]["host"] == "gpu-07"
    assert listed(node, "--address", "fd00::7")["chat@0"]["url"].startswith("http://[fd00::7]:")


def test_a_template_is_filled_in(node: Node) -> None:
    chat = node.model(replicas=2)
    node.apply(node.state(chat))
    template = node.root / "haproxy.in"
    template.write_text("backend llm\n$each\n  server $engine $address check\n$end\n")
    assert node.llmgw("endpoints", "--template", template).out == (
        f"backend llm\n"
        f"  server chat@0 127.0.0.1:{chat['port']} check\n"
        f"  server chat@1 127.0.0.1:{chat['port'] + 1} check\n"
    )


def test_a_template_that_cannot_be_used_is_refused(node: Node) -> None:
    template = node.root / "haproxy.in"
    assert "cannot read the template" in node.llmgw("endpoints", "--template", template, code=3).err
    template.write_text("$each\n$nonsense\n$end\n")
    assert f"{template}:2: there is no $nonsense here" in node.llmgw("endpoints", "--template", template, code=3).err
    template.write_bytes(b"\xff\xfe")
    assert "it is not UTF-8 text" in node.llmgw("endpoints", "--template", template, code=3).err
    assert node.llmgw("endpoints", "-o", "json", "--template", template, code=64)


def test_a_watched_file_follows_the_engines(node: Node) -> None:
    chat = node.model()
    node.apply(node.state(chat))
    with watching(node, "-o", "nginx", "--interval", "1s") as file:
        assert f"server 127.0.0.1:{chat['port']};" in file.read_text()
        written = file.stat().st_ino
        node.tell(HEALTH=503)
        until(lambda: "no engine is ready" in file.read_text(), what="the sick engine is still there")
        node.tell()
        until(lambda: f"server 127.0.0.1:{chat['port']};" in file.read_text(), what="the engine does not come back")
        assert file.stat().st_ino != written
        node.llmgw("stop", "chat")
        until(lambda: "no engine is ready" in file.read_text(), what="the stopped engine is still there")


def test_a_watched_file_keeps_its_mode(node: Node) -> None:
    node.apply(node.state(node.model()))
    (node.root / "endpoints.conf").write_text("old\n")
    (node.root / "endpoints.conf").chmod(0o640)
    with watching(node, "-o", "json") as file:
        until(lambda: file.read_text() != "old\n")
        assert file.stat().st_mode & 0o777 == 0o640


def test_a_watched_file_is_written_only_when_it_changes_and_left_alone_in_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each look notes which file is there: a new one has another inode."""
    file = tmp_path / "endpoints.conf"
    first = Endpoint(engine="chat@0", kind="vllm", served=("chat",), host="127.0.0.1", port=8000)
    second = first._replace(engine="chat@1", port=8001)
    looks: list[Routable | LlmgwError] = [
        Routable((first,)),
        Routable((first,)),
        NodeError("cannot tell"),
        NodeError("cannot tell"),
        Routable((first, second)),
        Routable(()),
    ]
    inodes: list[int | None] = []

    class OverError(Exception):
        pass

    def find() -> Routable:
        inodes.append(file.stat().st_ino if file.exists() else None)
        if not looks:
            raise OverError
        look = looks.pop(0)
        if isinstance(look, LlmgwError):
            raise look
        return look

    host = this_host(state_dir=str(tmp_path / "state"), environ={})
    with pytest.raises(OverError):
        endpoints._keep(host, endpoints.Watch(str(file), 0.0), find, lambda found: f"{len(found)}\n")
    nothing, one, same, in_doubt, in_doubt_still, two, none = inodes
    assert nothing is None
    assert one == same == in_doubt == in_doubt_still
    assert one != two
    assert two != none
    assert file.read_text() == "0\n"
    assert capsys.readouterr().err == f"{file} stays as it is: cannot tell\n"


def test_a_file_that_cannot_be_written_is_refused_at_once(node: Node) -> None:
    node.apply(node.state(node.model()))
    assert "cannot write" in node.llmgw("endpoints", "--watch", node.root / "no/where.conf", code=3).err
    (node.root / "link").symlink_to(node.root / "victim")
    assert "it is a symbolic link" in node.llmgw("endpoints", "--watch", node.root / "link", code=3).err


def test_records_that_cannot_be_believed_are_an_error_and_not_an_empty_list(node: Node) -> None:
    node.apply(node.state(node.model()))
    node.state_dir.chmod(0o777)
    try:
        result = node.llmgw("endpoints", "-o", "json", code=1)
    finally:
        node.state_dir.chmod(0o700)
    assert result.out == ""
    assert "cannot tell who can be routed to: " in result.err


def test_the_document_of_a_node_without_engines_is_an_empty_list(node: Node) -> None:
    document = node.llmgw("endpoints", "-o", "json", "--node", "gpu-07").json()
    assert document == {"format_version": 1, "node": "gpu-07", "endpoints": []}
    assert json.loads(node.llmgw("endpoints", "-o", "prometheus-sd").out) == []
