"""A state file of what runs: whatever runs, it is valid."""

from __future__ import annotations

from llmgw_reconcile.discovery.foreign_engines import ForeignEngine
from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase
from llmgw_reconcile.model.spec import engines_of
from llmgw_reconcile.statefile.load import load_state
from llmgw_reconcile.validate.file_rules import check_file
from llmgw_reconcile.workflow.glance import Glance
from llmgw_reconcile.workflow.importing import Imported, import_state
from tests.fakes.placed import a_node


def managed(name: str, **fields) -> list[ObservedEngine]:
    """Engines of ours, as their records tell."""
    model = ModelSpec(name=name, model="org/m", engine=EngineKind.VLLM, served_model_name=(name,), **fields)
    return [
        ObservedEngine(spec.engine, Phase.READY, spec=spec.document, bookkeeping=spec.bookkeeping)
        for spec in engines_of(model)
    ]


def imported(*engines: ObservedEngine, strangers: tuple[str, ...] = ()) -> Imported:
    """A node on which these engines of ours run, and those of others with these command lines."""
    foreign = (
        ForeignEngine(4000 + number, "alice", tuple(line.split()), "/work", {}, frozenset({4000 + number}))
        for number, line in enumerate(strangers)
    )
    return import_state(Glance(a_node(), ObservedState(tuple(engines))), foreign)


def models_of(found: Imported) -> dict[str, ModelSpec]:
    """The models of the file, which must be valid."""
    state = load_state("-", found.text.encode(), base="/")
    assert check_file(state) == ()
    assert found.entries == len(state.models)
    return {model.name: model for model in state.models}


def test_a_node_on_which_nothing_runs() -> None:
    found = imported()
    assert models_of(found) == {}
    assert found.warnings == ()


def test_engines_of_ours_and_of_others_stand_in_one_file() -> None:
    found = imported(
        *managed("chat", replicas=2, port=8000),
        strangers=("/v/bin/vllm serve org/chat --port 8100", "vllm serve org/x --port 8300"),
    )
    models = models_of(found)
    assert sorted(models) == ["chat", "chat-2", "x"]
    assert (models["chat"].replicas, models["chat-2"].port, models["x"].port) == (2, 8100, 8300)


def test_two_engines_that_no_file_can_have_beside_each_other_are_not_both_in_it() -> None:
    found = imported(*managed("chat", port=8000), strangers=("/v/bin/vllm serve org/other --port 8000",))
    assert sorted(models_of(found)) == ["chat"]
    assert "  # not usable as it is: other: other@0 would listen on port 8000, as chat@0 does" in found.text
    assert [warning.code for warning in found.warnings] == ["import-incomplete"]


def test_an_engine_that_no_entry_can_say_is_a_comment_with_the_reason() -> None:
    found = imported(strangers=("/v/bin/vllm serve org/m --port 80",))
    assert models_of(found) == {}
    assert "# not usable as it is: port: found the integer 80, expected an integer from 1024 to 65535\n" in found.text
    assert "#   port: 80\n" in found.text


def test_an_engine_that_cannot_be_read_is_told_of() -> None:
    found = imported(strangers=("/v/bin/vllm serve --config x.yaml",))
    assert models_of(found) == {}
    (warning,) = found.warnings
    assert (warning.code, warning.where) == ("import-unreadable", "pid 4000")
    assert warning.message.startswith("cannot tell which model vLLM serves")


def test_an_engine_whose_record_is_lost_is_told_of() -> None:
    found = imported(ObservedEngine("chat@0", Phase.ORPHANED))
    assert [(warning.code, warning.where) for warning in found.warnings] == [("import-unreadable", "chat@0")]


def test_no_secret_of_a_command_line_is_in_the_file() -> None:
    found = imported(strangers=("/v/bin/vllm serve org/m --api-key sk-77 --hf-token=hf_77",))
    assert "77" not in found.text
    assert models_of(found)["m"].api_key is not None
