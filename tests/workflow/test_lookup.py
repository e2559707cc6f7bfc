"""What is looked up for a plan, each thing once."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw_reconcile.discovery.engine_version import Answers, remember
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.workflow.host import Host, this_host
from llmgw_reconcile.workflow.lookup import Lookup, questions_for
from tests.engines.helps import VLLM_HELP
from tests.fakes.checkpoints import write_model
from tests.fakes.placed import a_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return this_host(state_dir=str(tmp_path / "state"), environ={"XDG_CACHE_HOME": str(tmp_path / "cache")})


def an_engine(tmp_path: Path) -> str:
    """A console script in an environment where vllm 0.31.2 is installed."""
    (tmp_path / "v/lib/python3.12/site-packages/vllm-0.31.2.dist-info").mkdir(parents=True)
    (tmp_path / "v/bin").mkdir()
    (tmp_path / "v/bin/vllm").write_text(f"#!{tmp_path}/v/bin/python3\n")
    return str(tmp_path / "v/bin/vllm")


def test_a_local_model_is_read_once(host: Host, tmp_path: Path) -> None:
    model = a_model(model=write_model(tmp_path / "m"))
    lookup = Lookup(host)
    first = lookup.checkpoint(model)
    assert first is not None
    assert (first.heads, lookup.checkpoint(model)) == (32, first)
    assert lookup.content_marks(model).keys() == {"config.json", "model.safetensors"}


def test_a_hub_id_is_looked_for_in_the_engines_cache(host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "hub/models--org--model"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(COMMIT)
    (folder / "snapshots").mkdir()
    write_model(folder / "snapshots" / COMMIT)
    for model in (
        a_model(env={"HF_HUB_CACHE": str(tmp_path / "hub")}),
        a_model(args=("--download-dir", str(tmp_path / "hub"))),
        a_model(revision=COMMIT, env={"HF_HUB_CACHE": str(tmp_path / "hub")}),
    ):
        found = Lookup(host).checkpoint(model)
        assert found is not None
        assert found.layers == 16
        assert Lookup(host).content_marks(model) == {"commit": COMMIT}
    nowhere = a_model(env={"HF_HOME": str(tmp_path)}, model="org/other")
    assert (Lookup(host).checkpoint(nowhere), Lookup(host).content_marks(nowhere)) == (None, {})


def test_an_engine_that_was_not_asked_is_known_by_its_package(host: Host, tmp_path: Path) -> None:
    lookup, path = Lookup(host), an_engine(tmp_path)
    assert lookup.version(EngineKind.VLLM, path) == "0.31.2"
    assert lookup.installed(EngineKind.VLLM, path).options == ()
    assert not lookup.was_asked(EngineKind.VLLM, path)


def test_an_engine_that_was_asked_is_known_by_its_answers(host: Host, tmp_path: Path) -> None:
    path = an_engine(tmp_path)
    questions = questions_for(EngineKind.VLLM, path)
    remember(str(tmp_path / "cache/llmgw/engines"), questions, Answers("0.33.0", VLLM_HELP))
    lookup = Lookup(host)
    found = lookup.installed(EngineKind.VLLM, path)
    assert (found.version, len(found.options)) == ("0.33.0", 18)
    assert lookup.was_asked(EngineKind.VLLM, path)


def test_an_engine_of_which_nothing_is_known(host: Host, tmp_path: Path) -> None:
    lookup = Lookup(host)
    assert lookup.version(EngineKind.VLLM, str(tmp_path / "absent")) is None
    assert lookup.installed(EngineKind.VLLM, str(tmp_path / "absent")) == (None, ())
