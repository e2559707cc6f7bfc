import pytest

from llmgw_reconcile.model.observed import LastExit, ObservedState, Phase, ProcessId
from llmgw_reconcile.plan.digest import plan_digest
from llmgw_reconcile.plan.reconcile import reconcile
from tests.plan.builders import blocked, ended, error, gpu, launch, running, spec, wanted

CARD = gpu(0)


def digest(want, seen=None, cards=(CARD,), node="gpu-07"):
    return plan_digest(node, reconcile([want], ObservedState(engines=(seen,) if seen else ()), cards))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param((wanted(), running()), (wanted(), running(phase=Phase.LOADING)), id="the-phase-of-a-kept-engine"),
        pytest.param((wanted(), running()), (wanted(), running(live=ProcessId(9, 9))), id="a-pid"),
        pytest.param(
            (wanted(), None), (wanted(), ended(phase=Phase.FAILED, last_exit=LastExit(code=7))), id="an-earlier-failure"
        ),
        pytest.param(
            (blocked(spec(), error("gpu-held", "61190 MiB held by pid 4121")), None),
            (blocked(spec(), error("gpu-held", "61204 MiB held by pid 4121")), None),
            id="the-words-of-a-reason",
        ),
        pytest.param(
            (wanted(), running()),
            (wanted(), running(launch={"argv": ["/usr/bin/vllm"]})),
            id="a-note-for-the-next-start",
        ),
    ],
)
def test_what_flickers_leaves_the_digest(one, other):
    assert digest(*one) == digest(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param((wanted(), None), (wanted(), running()), id="another-action"),
        pytest.param((wanted(), None), (wanted(spec(dtype="auto")), None), id="another-spec"),
        pytest.param((wanted(), None), (wanted(spec(protect=True)), None), id="another-bookkeeping"),
        pytest.param((wanted(), None), (wanted(spec(port=8001)), None), id="another-port"),
        pytest.param((wanted(spec(), gpu(0)), None), (wanted(spec(), gpu(1)), None), id="another-card"),
        pytest.param(
            (wanted(spec(), gpu(0)), None), (wanted(spec(), gpu(0, "a100-80g")), None), id="another-class-of-card"
        ),
        pytest.param(
            (wanted(), None), (wanted(launch=launch(spec(), env=(("A", "1"),))), None), id="another-environment"
        ),
        pytest.param((wanted(), None), (blocked(), None), id="blocked"),
        pytest.param(
            (blocked(), None), (blocked(spec(), error("port-taken", "port 8000 is taken")), None), id="another-reason"
        ),
        pytest.param(
            (wanted(spec(dtype="auto")), running()),
            (wanted(spec(dtype="auto")), running(spec(dtype="half"))),
            id="another-change",
        ),
    ],
)
def test_what_an_apply_rests_on_changes_the_digest(one, other):
    assert digest(*one) != digest(*other)


def test_another_node_has_another_digest():
    assert digest(wanted()) != digest(wanted(), node="gpu-08")


def test_a_digest_names_its_algorithm():
    name, _, value = digest(wanted()).partition(":")
    assert name == "sha256"
    assert len(value) == 64
