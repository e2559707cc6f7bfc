"""A recorded launch becomes real: secrets by reference, files as they were when the launch was made."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from llmgw_reconcile.errors import NodeError
from llmgw_reconcile.host.state_dir import EngineDir
from llmgw_reconcile.supervise.resolve import copy_files, copy_of, resolve_launch


@pytest.fixture
def folder(tmp_path: Path) -> EngineDir:
    (tmp_path / "chat@0").mkdir(mode=0o700)
    return EngineDir(str(tmp_path / "chat@0"))


def file_item(path: Path, text: str) -> dict[str, str]:
    """A `{file:}` item of `args` whose file had this content when the state was read."""
    return {"file": str(path), "digest": f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"}


def launch(*argv: Any, **env: Any) -> dict[str, Any]:
    return {"argv": ["/bin/engine", *argv], "env": env, "api_key": None}


def test_references_become_values_and_all_secrets_are_known(folder: EngineDir, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("file-secret\n")
    key.chmod(0o600)
    document = launch("--token", {"env": "TOKEN"}, HF_TOKEN={"env": "TOKEN"}, LANG="C") | {
        "api_key": {"file": str(key)}
    }
    found = resolve_launch(document, folder, {"TOKEN": "env-secret"})
    assert found.argv == ("/bin/engine", "--token", "env-secret")
    assert found.env == {"HF_TOKEN": "env-secret", "LANG": "C"}
    assert found.bearer == "file-secret"
    assert found.secrets == ("env-secret", "file-secret")


def test_every_reference_that_leads_nowhere_is_named_once(folder: EngineDir) -> None:
    document = launch({"env": "A"}, X={"env": "A"}, Y={"file": "/nonexistent/key"})
    with pytest.raises(NodeError) as caught:
        resolve_launch(document, folder, {})
    assert str(caught.value) == (
        "cannot read a secret: the file /nonexistent/key cannot be read: No such file or directory; "
        "the variable A is not set"
    )


def test_an_engine_reads_the_copy_of_a_file(folder: EngineDir, tmp_path: Path) -> None:
    source = tmp_path / "t.jinja"
    source.write_text("hello")
    item = file_item(source, "hello")
    copy_files(launch("--chat-template", item), folder)
    copy = Path(resolve_launch(launch("--chat-template", item), folder, {}).argv[2])
    assert copy.parent == Path(folder.path) / "files"
    assert copy.name.endswith("-t.jinja")
    assert (copy.read_text(), copy.stat().st_mode & 0o777) == ("hello", 0o600)


def test_a_copy_stands_for_an_original_that_was_edited_or_removed_since(folder: EngineDir, tmp_path: Path) -> None:
    source = tmp_path / "t.jinja"
    source.write_text("first")
    first = file_item(source, "first")
    copy_files(launch(first), folder)
    source.write_text("second")
    copy_files(launch(first), folder)
    assert Path(copy_of(first, folder)).read_text() == "first"
    source.unlink()
    copy_files(launch(first), folder)
    assert Path(copy_of(first, folder)).read_text() == "first"


def test_a_file_that_changed_between_the_plan_and_its_copy_is_refused(folder: EngineDir, tmp_path: Path) -> None:
    source = tmp_path / "t.jinja"
    source.write_text("second")
    with pytest.raises(NodeError, match="it was edited since it was planned; plan again"):
        copy_files(launch(file_item(source, "first")), folder)


def test_a_copy_that_was_damaged_is_made_anew(folder: EngineDir, tmp_path: Path) -> None:
    source = tmp_path / "t.jinja"
    source.write_text("hello")
    item = file_item(source, "hello")
    copy_files(launch(item), folder)
    Path(copy_of(item, folder)).write_text("")
    copy_files(launch(item), folder)
    assert Path(copy_of(item, folder)).read_text() == "hello"


def test_a_file_that_is_gone_and_was_never_copied_is_named(folder: EngineDir, tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"cannot read .*/gone: No such file or directory"):
        copy_files(launch(file_item(tmp_path / "gone", "hello")), folder)
