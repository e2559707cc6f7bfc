from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_reconcile.errors import Severity
from llmgw_reconcile.model.desired import FileArg, SecretRef
from llmgw_reconcile.model.observed import LastExit, ObservedState, Phase, ProcessId
from llmgw_reconcile.plan.actions import ActionKind, FieldChange
from llmgw_reconcile.plan.reconcile import Wanted, reconcile, runs_unchanged
from tests.plan.builders import (
    VLLM,
    blocked,
    ended,
    error,
    gpu,
    launch,
    running,
    spec,
    wanted,
    warning,
)

CHANGED = spec(max_model_len=8192)
LEFTOVERS = (ProcessId(4122, 9), ProcessId(4121, 8))
LOST = {"spec": None, "bookkeeping": None}
KEPT = "kept as it runs"


def decide(want, seen, *, readable=True):
    """The one action for chat@0."""
    observed = ObservedState(engines=(seen,) if seen else (), readable=readable)
    (action,) = reconcile((want,) if want else (), observed)
    return action


@pytest.mark.parametrize(
    ("want", "seen", "kind", "reason"),
    [
        pytest.param(wanted(), None, "start", "not running", id="wanted-and-unknown-is-started"),
        pytest.param(
            wanted(),
            ended(detail="it ended with the node's last boot"),
            "start",
            "not running: it ended with the node's last boot",
            id="wanted-and-ended-is-started",
        ),
        pytest.param(
            wanted(),
            ended(phase=Phase.HELD),
            "start",
            "held: it was stopped by hand; this apply starts it again",
            id="held-is-started-since-a-person-applies",
        ),
        pytest.param(
            wanted(),
            ended(phase=Phase.FAILED, last_exit=LastExit(code=7)),
            "start",
            "failed before (exit code 7); this apply tries it again",
            id="failed-is-tried-again-since-a-person-applies",
        ),
        pytest.param(
            wanted(),
            ended(phase=Phase.FAILED, last_exit=LastExit(signal="SIGKILL")),
            "start",
            "failed before (SIGKILL); this apply tries it again",
            id="failed-by-a-signal-names-it",
        ),
        pytest.param(
            wanted(),
            ended(phase=Phase.FAILED),
            "start",
            "failed before; this apply tries it again",
            id="failed-in-an-unknown-way-is-tried-again",
        ),
        pytest.param(
            wanted(),
            ended(phase=Phase.ORPHANED, leftovers=LEFTOVERS),
            "start",
            "not running; left-over processes of its last run end first: 4121, 4122",
            id="left-over-processes-are-named-before-a-start",
        ),
        pytest.param(
            wanted(),
            running(phase=Phase.STOPPING),
            "start",
            "it is being stopped, and starts when that has ended",
            id="stopping-is-no-running-engine",
        ),
        pytest.param(
            wanted(), ended(**LOST), "start", "not running", id="a-lost-record-of-which-nothing-lives-stops-nobody"
        ),
        pytest.param(wanted(), running(), "keep", "it runs as the state file says", id="equal-is-kept"),
        pytest.param(
            wanted(),
            running(phase=Phase.DEGRADED),
            "keep",
            "it runs as the state file says",
            id="busy-is-kept",
        ),
        pytest.param(
            wanted(),
            running(phase=Phase.LOADING),
            "keep",
            "it is on its way as the state file says (loading)",
            id="loading-is-on-its-way",
        ),
        pytest.param(
            wanted(),
            running(phase=Phase.BACKOFF, live=None),
            "keep",
            "it is on its way as the state file says (backoff)",
            id="a-supervisor-that-will-restart-it-is-left-to-it",
        ),
        pytest.param(
            wanted(),
            running(phase=Phase.ORPHANED, supervisor=None),
            "adopt",
            "it runs without a supervisor; it gets a new one",
            id="equal-without-a-supervisor-is-adopted",
        ),
        pytest.param(wanted(CHANGED), running(), "replace", "max_model_len changed", id="a-changed-spec-is-replaced"),
        pytest.param(
            wanted(CHANGED),
            running(phase=Phase.LOADING),
            "replace",
            "max_model_len changed",
            id="also-while-it-loads",
        ),
        pytest.param(
            wanted(CHANGED),
            running(phase=Phase.ORPHANED, supervisor=None),
            "replace",
            "max_model_len changed",
            id="also-without-a-supervisor",
        ),
        pytest.param(
            wanted(spec(dtype="auto", max_model_len=1, port=8001)),
            running(),
            "replace",
            "dtype, max_model_len and port changed",
            id="three-fields-are-named",
        ),
        pytest.param(
            wanted(spec(dtype="auto", host="0.0.0.0", max_model_len=1, port=8001, quantization="awq")),
            running(),
            "replace",
            "dtype, host, max_model_len and 2 more changed",
            id="more-fields-are-counted",
        ),
        pytest.param(
            wanted(spec(labels={"team": "ads"}, stop_grace=90.0)),
            running(),
            "update",
            "labels.team and stop_grace changed; no restart needed",
            id="bookkeeping-is-updated",
        ),
        pytest.param(None, running(), "stop", "the state file does not name it", id="unwanted-is-stopped"),
        pytest.param(
            None,
            running(phase=Phase.BACKOFF, live=None),
            "stop",
            "the state file does not name it",
            id="unwanted-with-a-supervisor-alone-is-stopped",
        ),
        pytest.param(
            None,
            ended(leftovers=LEFTOVERS),
            "stop",
            "the state file does not name it; left-over processes of its last run end: 4121, 4122",
            id="left-overs-of-an-unwanted-engine-are-stopped",
        ),
        pytest.param(None, running(**LOST), "blocked", KEPT, id="unwanted-with-a-lost-record-is-not-stopped"),
        pytest.param(wanted(), running(**LOST), "blocked", KEPT, id="wanted-with-a-lost-record-is-not-replaced"),
        pytest.param(blocked(), None, "blocked", "it cannot be started here", id="what-the-node-lacks-blocks"),
        pytest.param(
            blocked(), ended(phase=Phase.FAILED), "blocked", "it cannot be started here", id="also-after-a-failure"
        ),
        pytest.param(blocked(CHANGED), running(), "blocked", KEPT, id="a-blocked-replacement-keeps-the-running-one"),
        pytest.param(
            blocked(), running(), "keep", "it runs as the state file says", id="what-blocks-a-start-moves-no-equal-one"
        ),
        pytest.param(
            blocked(),
            running(supervisor=None),
            "adopt",
            "it runs without a supervisor; it gets a new one",
            id="and-hinders-no-adoption",
        ),
    ],
)
def test_one_engine_gets_one_action_and_a_reason(want, seen, kind, reason):
    action = decide(want, seen)
    assert (action.engine, str(action.kind), action.reason) == ("chat@0", kind, reason)


@pytest.mark.parametrize(
    ("want", "seen", "kind"),
    [
        pytest.param(None, running(), "blocked", id="nothing-is-stopped"),
        pytest.param(wanted(CHANGED), running(), "blocked", id="nothing-is-replaced"),
        pytest.param(wanted(), None, "blocked", id="no-second-copy-is-started-beside-one-that-cannot-be-seen"),
        pytest.param(wanted(), running(), "keep", id="what-was-seen-and-is-equal-is-kept"),
    ],
)
def test_when_records_cannot_be_read(want, seen, kind):
    action = decide(want, seen, readable=False)
    assert str(action.kind) == kind
    assert [d.code for d in action.diagnostics] == (["records-unreadable"] if kind == "blocked" else [])


def test_a_record_alone_gives_no_action():
    assert reconcile((), ObservedState(engines=(ended(),))) == ()


def test_a_replacement_names_each_field_that_forces_it():
    action = decide(wanted(spec(max_model_len=8192)), running(spec(max_model_len=4096)))
    assert action.changes == (FieldChange("max_model_len", 4096, 8192, True),)


def test_a_blocked_replacement_shows_its_changes_and_every_reason():
    reasons = (error("no-executable", "cannot find vllm"), error("port-taken", "port 8000 is taken"))
    action = decide(blocked(spec(max_model_len=8192), *reasons), running())
    assert action.changes == (FieldChange("max_model_len", None, 8192, True),)
    assert action.diagnostics == reasons


def test_what_would_block_a_start_is_a_warning_on_an_engine_that_runs():
    action = decide(blocked(spec(), error("no-executable", "cannot find vllm")), running())
    assert action.diagnostics == (warning("no-executable", "cannot find vllm"),)


def test_an_adoption_takes_new_bookkeeping_along():
    action = decide(wanted(spec(protect=True)), running(supervisor=None))
    assert action.kind is ActionKind.ADOPT
    assert action.changes == (FieldChange("protect", False, True, False),)


@pytest.mark.parametrize(
    "seen", [running(), running(supervisor=None), running(spec(protect=True))], ids=["keep", "adopt", "update"]
)
def test_what_would_be_derived_differently_is_a_note_and_no_change(seen):
    seen = seen._replace(launch=seen.launch | {"argv": ["/usr/bin/vllm", *seen.launch["argv"][1:]]})
    action = decide(wanted(), seen)
    assert action.kind is not ActionKind.REPLACE
    assert action.at_next_start == (FieldChange("executable", "/usr/bin/vllm", VLLM, False),)


@pytest.mark.parametrize(
    ("pin", "recorded", "told", "kind"),
    [
        pytest.param("0.33.*", "0.33.0", None, ActionKind.UPDATE, id="met"),
        pytest.param("0.33.*", "0.32.0", None, ActionKind.REPLACE, id="not-met"),
        pytest.param("0.33.*", None, None, ActionKind.UPDATE, id="not-recorded"),
        pytest.param("0.33.*", "0.33.0", "0.34.0", ActionKind.REPLACE, id="another-one-runs-than-was-recorded"),
        pytest.param(None, "0.32.0", None, ActionKind.KEEP, id="no-pin"),
    ],
)
def test_a_pin_replaces_what_runs_in_another_version(pin, recorded, told, kind):
    seen = running()
    seen = seen._replace(launch=seen.launch | {"engine_version": recorded}, version=told)
    action = decide(wanted(spec(engine_version=pin)), seen)
    assert action.kind is kind
    if kind is ActionKind.REPLACE:
        assert action.changes == (FieldChange("engine_version", told or recorded, "0.33.*", True),)


CONFIG = FileArg("/etc/v.yaml", "sha256:bb")


@pytest.mark.parametrize(
    ("recorded", "now", "kind"),
    [
        pytest.param({"/etc/v.yaml": "sha256:aa"}, CONFIG, ActionKind.REPLACE, id="changed"),
        pytest.param({"/etc/v.yaml": "sha256:bb"}, CONFIG, ActionKind.KEEP, id="unchanged"),
        pytest.param({"/etc/v.yaml": "sha256:aa"}, CONFIG._replace(digest=""), ActionKind.KEEP, id="cannot-be-read"),
        pytest.param({}, CONFIG, ActionKind.KEEP, id="not-recorded"),
    ],
)
def test_a_changed_file_of_settings_replaces(recorded, now, kind):
    want = spec(args=("--config", "/etc/v.yaml"), config_files=(now,))
    seen = running(want)._replace(spec=want.document | {"config_files": recorded})
    action = decide(wanted(want), seen)
    assert action.kind is kind
    if kind is ActionKind.REPLACE:
        assert action.changes == (FieldChange("config_files./etc/v.yaml", "sha256:aa", "sha256:bb", True),)


def test_a_live_engine_that_is_not_as_recorded_is_kept_with_a_warning():
    seen = running(command=(VLLM, "serve", "org/llama", "--port", "9000"))
    action = decide(wanted(), seen)
    assert action.kind is ActionKind.KEEP
    assert [d.message for d in action.diagnostics] == [
        "its command line is not the recorded one: --port is 9000, recorded 8000"
    ]


@pytest.mark.parametrize(
    ("want", "seen", "unchanged"),
    [
        pytest.param(wanted(), running(), True, id="as-wanted"),
        pytest.param(wanted(), running(phase=Phase.LOADING), True, id="on-its-way"),
        pytest.param(wanted(spec(protect=True)), running(), True, id="bookkeeping"),
        pytest.param(wanted(CHANGED), running(), False, id="changed"),
        pytest.param(wanted(), running(**LOST), False, id="record-lost"),
        pytest.param(wanted(), ended(), False, id="ended"),
        pytest.param(wanted(), None, False, id="unknown"),
    ],
)
def test_only_what_runs_as_wanted_needs_no_start(want, seen, unchanged):
    assert runs_unchanged(want, seen) is unchanged


def test_problems_of_its_records_come_along():
    problem = warning("stale-pid-file", "pid 4100 is another program now")
    assert decide(wanted(), ended(problems=(problem,))).diagnostics == (problem,)
    assert decide(None, running(problems=(problem,))).diagnostics == (problem,)


TOKEN = spec(env={"HF_TOKEN": SecretRef("file", "/etc/llmgw/hf")})


def test_a_rotated_secret_replaces_and_shows_no_more_than_that():
    action = decide(
        wanted(TOKEN, secret_digests={"env.HF_TOKEN": "new"}), running(TOKEN, secret_digests={"env.HF_TOKEN": "old"})
    )
    assert action.kind is ActionKind.REPLACE
    assert action.changes == (FieldChange("env.HF_TOKEN", "(secret)", "(secret)", True),)


def test_a_secret_that_moved_and_changed_is_one_change():
    moved = spec(env={"HF_TOKEN": SecretRef("file", "/etc/hf")})
    action = decide(
        wanted(moved, secret_digests={"env.HF_TOKEN": "new"}), running(TOKEN, secret_digests={"env.HF_TOKEN": "old"})
    )
    assert action.changes == (FieldChange("env.HF_TOKEN", {"file": "/etc/llmgw/hf"}, {"file": "/etc/hf"}, True),)


@pytest.mark.parametrize(
    ("now", "recorded", "kind", "messages"),
    [
        pytest.param("d", {"env.HF_TOKEN": "d"}, "keep", [], id="an-equal-digest-says-nothing"),
        pytest.param(
            None,
            {"env.HF_TOKEN": "d"},
            "keep",
            ["env.HF_TOKEN is not compared: the secret cannot be read here"],
            id="unreadable-here",
        ),
        pytest.param(
            "d",
            None,
            "keep",
            ["env.HF_TOKEN is not compared: the record of the running engine lacks it"],
            id="never-recorded",
        ),
    ],
)
def test_a_secret_that_cannot_be_compared_is_a_warning(now, recorded, kind, messages):
    action = decide(wanted(TOKEN, secret_digests={"env.HF_TOKEN": now}), running(TOKEN, secret_digests=recorded))
    assert str(action.kind) == kind
    assert [d.message for d in action.diagnostics] == messages
    assert all(d.severity is Severity.WARNING and d.code == "secret-not-compared" for d in action.diagnostics)


def test_a_start_carries_what_is_launched_masked_for_people_and_whole_for_carrying_out():
    of = spec(tensor_parallel_size=2)
    cards = (gpu(4), gpu(5))
    start = launch(
        of,
        *cards,
        argv=(VLLM, "serve", "--api-key", SecretRef("file", "/k"), "--chat-template", FileArg("/t.jinja", "sha256:a")),
        env=(("HF_TOKEN", SecretRef("env", "T")), ("LANG", "C.UTF-8")),
    )
    action = decide(wanted(of, *cards, launch=start), None)
    assert action.gpus == ("GPU-4", "GPU-5")
    assert action.gpu_labels == ("4", "5")
    assert action.gpu_classes == ("h100-80g", "h100-80g")
    assert action.port == 8000
    assert action.command == (VLLM, "serve", "--api-key", "(secret)", "--chat-template", "/t.jinja")
    assert action.environment == (("HF_TOKEN", "(secret)"), ("LANG", "C.UTF-8"))
    assert (action.spec, action.launch) == (of, start)


def test_a_running_engine_shows_its_own_cards_and_nothing_to_launch():
    (action,) = reconcile((), ObservedState(engines=(running(spec(), gpu(4), gpu(5)),)), [gpu(4), gpu(0)])
    assert action.gpus == ("GPU-4", "GPU-5")
    assert action.gpu_labels == ("4", "GPU-5")
    assert action.gpu_classes == ("h100-80g", "unknown")
    assert (action.command, action.environment, action.spec, action.launch) == ((), (), None, None)


def test_actions_come_in_the_order_of_carrying_out_then_by_model_and_replica():
    observed = ObservedState(
        engines=(
            running(spec("adopted"), supervisor=None),
            running(spec("kept")),
            running(spec("replaced")),
            running(spec("stopped")),
            running(spec("updated")),
        )
    )
    actions = reconcile(
        [
            blocked(spec("blocked")),
            wanted(spec("started", 10)),
            wanted(spec("started", 9)),
            wanted(spec("replaced", dtype="auto")),
            wanted(spec("updated", protect=True)),
            wanted(spec("kept")),
            wanted(spec("adopted")),
        ],
        observed,
    )
    assert [(str(action.kind), action.engine) for action in actions] == [
        ("stop", "stopped@0"),
        ("adopt", "adopted@0"),
        ("update", "updated@0"),
        ("start", "started@9"),
        ("start", "started@10"),
        ("replace", "replaced@0"),
        ("keep", "kept@0"),
        ("blocked", "blocked@0"),
    ]


names = st.sampled_from(["chat", "code", "embed", "rerank"])
specs = st.builds(
    lambda name, length, protect: spec(name, max_model_len=length, protect=protect),
    names,
    st.sampled_from([1024, 2048]),
    st.booleans(),
)
reasons = st.sampled_from([(), (error("no-executable", "cannot find vllm"),)])
wants = st.builds(lambda of, why: wanted(of)._replace(blocked=why), specs, reasons)
process = st.sampled_from([None, ProcessId(4100, 1)])
sightings = st.builds(
    lambda of, phase, live, supervisor, left, lost: running(
        of, phase=phase, live=live, supervisor=supervisor, leftovers=(left,) if left else ()
    )._replace(**(LOST if lost else {})),
    specs,
    st.sampled_from(Phase),
    process,
    process,
    process,
    st.booleans(),
)
desired_states = st.lists(wants, unique_by=lambda want: want.spec.engine).map(tuple)
observed_states = st.builds(
    lambda engines, readable: ObservedState(engines=tuple(engines), readable=readable),
    st.lists(sightings, unique_by=lambda seen: seen.engine),
    st.booleans(),
)


@given(desired_states, observed_states)
def test_every_engine_that_is_wanted_or_lives_gets_exactly_one_action(desired, observed):
    lives = {e.engine for e in observed.engines if e.live or e.supervisor or e.leftovers}
    engines = [action.engine for action in reconcile(desired, observed)]
    assert sorted(engines) == sorted({want.spec.engine for want in desired} | lives)


@given(desired_states, observed_states)
def test_nothing_is_stopped_or_replaced_without_knowing_what_it_is(desired, observed):
    known = {e.engine for e in observed.engines if e.spec is not None or not (e.live or e.supervisor)}
    for action in reconcile(desired, observed):
        if action.kind in (ActionKind.STOP, ActionKind.REPLACE):
            assert observed.readable
            assert action.engine in known


@given(desired_states, observed_states)
def test_every_blocked_engine_says_why(desired, observed):
    for action in reconcile(desired, observed):
        if action.kind is ActionKind.BLOCKED:
            assert any(d.severity is Severity.ERROR for d in action.diagnostics)


@given(desired_states)
def test_once_reality_is_as_desired_everything_is_kept(desired: tuple[Wanted, ...]):
    observed = ObservedState(engines=tuple(running(want.spec) for want in desired))
    actions = reconcile(desired, observed)
    assert {action.kind for action in actions} <= {ActionKind.KEEP}
    assert all(not action.changes and not action.at_next_start for action in actions)


@given(st.permutations([wanted(spec(name)) for name in ("a", "b", "c")]))
def test_the_order_of_the_file_does_not_change_the_plan(desired):
    assert [action.engine for action in reconcile(desired, ObservedState())] == ["a@0", "b@0", "c@0"]
