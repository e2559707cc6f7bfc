import os

import pytest

from llmgw_reconcile.discovery.owners import Owners, owners_of
from llmgw_reconcile.host.proc import identify
from llmgw_reconcile.model.gpu import HolderKind
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase, ProcessId


def nobody(pid):
    return None


def proc(tmp_path, *parents):
    """Processes by (pid, parent)."""
    for pid, parent in parents:
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a ) b) S {parent} 1 1 0\n")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("pid", "owner"),
    [
        pytest.param(40, (HolderKind.OURS, "chat@0"), id="ours"),
        pytest.param(41, (HolderKind.LEFT_OVER, "old@0"), id="ours-but-its-leader-is-dead"),
        pytest.param(30, (HolderKind.OTHER_LLMGW, None), id="below-the-supervisor-of-another-llmgw"),
        pytest.param(20, (HolderKind.FOREIGN, None), id="a-stranger"),
        pytest.param(99, (HolderKind.NOT_VISIBLE, None), id="in-another-pid-namespace"),
    ],
)
def test_a_process_is_told_by_whose_it_is(tmp_path, pid, owner):
    root = proc(tmp_path, (10, 1), (20, 1), (28, 10), (29, 28), (30, 29), (40, 1), (41, 1))
    engine_of = {40: "chat@0", 41: "old@0"}.get
    owners = Owners(engine_of, frozenset({"old@0"}), frozenset({10}), proc_root=root)
    assert owners.owner_of(pid) == owner


def test_a_loop_of_parents_comes_to_an_end(tmp_path):
    root = proc(tmp_path, (50, 51), (51, 50))
    assert Owners(nobody, supervisors=frozenset({9}), proc_root=root).owner_of(50) == (HolderKind.FOREIGN, None)


def test_supervisors_that_no_record_names_are_another_llmgws(tmp_path):
    for pid in (60, 61):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text(f"llmgw: supervisor e@{pid} GPU-{pid}\0")
    ours = ObservedEngine("e@60", Phase.READY, live=ProcessId(70, 1), supervisor=ProcessId(60, 1))
    owners = owners_of(ObservedState(engines=(ours,)), str(tmp_path))
    assert owners.supervisors == {61}
    assert owners.claims == ()  # of this user: it keeps its records elsewhere, and its cards are not held for that


def test_another_users_supervisor_holds_its_cards(tmp_path, monkeypatch):
    (tmp_path / "61").mkdir()
    (tmp_path / "61/cmdline").write_text("llmgw: supervisor chat@0 GPU-7,GPU-8\0")
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    (claim,) = owners_of(ObservedState(), str(tmp_path)).claims
    assert (claim.pid, claim.gpus) == (61, ("GPU-7", "GPU-8"))


def test_an_engine_without_a_live_leader_is_leaderless():
    me = identify(os.getpid())
    observed = ObservedState(
        engines=(
            ObservedEngine("gone@0", Phase.ORPHANED, leftovers=(me,)),
            ObservedEngine("here@0", Phase.READY, live=ProcessId(1, 1)),
        )
    )
    owners = owners_of(observed)
    assert owners.leaderless == {"gone@0"}
    assert owners.owner_of(me.pid) == (HolderKind.LEFT_OVER, "gone@0")
