from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

from llmgw_reconcile.model.desired import FileArg, SecretRef
from llmgw_reconcile.model.observed import ObservedState
from llmgw_reconcile.plan.actions import Action, ActionKind, FieldChange, Plan
from llmgw_reconcile.plan.reconcile import reconcile
from llmgw_reconcile.render.plan_text import plan_text
from tests.plan.builders import VLLM, blocked, error, gpu, launch, running, spec, wanted, warning

CARDS = [gpu(index) for index in range(8)]


def plan_of(*wants, engines=(), diagnostics=()):
    actions = reconcile(wants, ObservedState(engines=tuple(engines)), CARDS)
    return Plan("gpu-07", "states/node.yaml", actions, diagnostics)


def golden(text):
    return dedent(text).removeprefix("\n")


def start(**changed):
    of = spec("chat", model="org/llama-70b", tensor_parallel_size=4)
    words = ("serve", "org/llama-70b", "--host", "127.0.0.1", "--port", "8000", "--tensor-parallel-size", "4")
    template = ("--chat-template", FileArg("/etc/my templates/x.jinja", "sha256:1"))
    environment = (("HF_TOKEN", SecretRef("file", "/etc/hf")), ("LANG", "C.UTF-8"))
    return wanted(of, *CARDS[:4], launch=launch(of, *CARDS[:4], argv=(VLLM, *words, *template), env=environment))


def test_a_start_shows_model_cards_port_and_a_command_to_paste():
    assert plan_text(plan_of(start())) == golden(r"""
        Plan for gpu-07 from states/node.yaml

          + chat@0  start    not running
              model    org/llama-70b
              engine   vllm
              gpus     0, 1, 2, 3 (h100-80g)
              port     8000
              command  /opt/vllm/bin/vllm serve org/llama-70b --host 127.0.0.1 \
                         --port 8000 --tensor-parallel-size 4 \
                         --chat-template '/etc/my templates/x.jinja'

        Plan: 1 to start, 0 to replace, 0 to stop, 0 to adopt; 0 unchanged, 0 blocked.
        """)


def test_a_verbose_start_shows_its_environment_too_with_secrets_masked():
    text = plan_text(plan_of(start()), verbose=True)
    assert "\n      env.HF_TOKEN  (secret)\n      env.LANG      C.UTF-8\n" in text


def test_a_replacement_shows_old_and_new_and_what_forces_it():
    text = plan_text(
        plan_of(
            wanted(spec("chat", max_model_len=8192, args=("--seed", "2", "--eager")), CARDS[5]),
            engines=[running(spec("chat", max_model_len=4096, args=("--seed", "1", "--eager")), CARDS[5])],
        )
    )
    assert text == golden("""
        Plan for gpu-07 from states/node.yaml

        -/+ chat@0  replace  args.--seed and max_model_len changed
              args.--seed    1 => 2  # forces replacement
              max_model_len  4096 => 8192  # forces replacement
              gpus           5 (h100-80g)
              port           8000

        Plan: 0 to start, 1 to replace, 0 to stop, 0 to adopt; 0 unchanged, 0 blocked.
        """)


def test_a_changed_secret_shows_that_it_changed_and_nothing_else():
    of = spec(env={"HF_TOKEN": SecretRef("env", "T")})
    plan = plan_of(
        wanted(of, secret_digests={"env.HF_TOKEN": "b"}), engines=[running(of, secret_digests={"env.HF_TOKEN": "a"})]
    )
    assert "\n      env.HF_TOKEN  (secret) changed  # forces replacement\n" in plan_text(plan)


def test_a_stop_names_the_cards_that_it_frees():
    assert plan_text(plan_of(engines=[running(spec("old"), CARDS[6], CARDS[7])])) == golden("""
        Plan for gpu-07 from states/node.yaml

          - old@0  stop     the state file does not name it
              gpus  6, 7 (h100-80g)
              port  8000

        Plan: 0 to start, 0 to replace, 1 to stop, 0 to adopt; 0 unchanged, 0 blocked.
        """)


def test_an_adoption_and_an_update_are_short():
    plan = plan_of(
        wanted(spec("a", port=8001)),
        wanted(spec("b", labels={"team": "ads"})),
        engines=[running(spec("a", port=8001), supervisor=None), running(spec("b", labels={"team": "search"}))],
    )
    assert plan_text(plan) == golden("""
        Plan for gpu-07 from states/node.yaml

         <= a@0  adopt    it runs without a supervisor; it gets a new one

          ~ b@0  update   labels.team changed; no restart needed
              labels.team  search => ads

        Plan: 0 to start, 0 to replace, 0 to stop, 1 to adopt, 1 to update; 0 unchanged, 0 blocked.
        """)


def test_a_replacement_that_starts_first_has_its_own_sign():
    action = Action(ActionKind.REPLACE, "chat@0", "port changed", surge=True)
    assert "\n+/- chat@0  replace  port changed\n" in plan_text(Plan("n", "s", (action,)))


def test_a_blocked_engine_shows_every_reason_with_its_hint_and_the_others_go_on():
    reasons = (
        error("no-executable", "cannot find the executable /nonexistent/vllm", "install it, or name another"),
        error("not-enough-gpus", "cannot give it 2 GPUs: 1 is free\nGPU 3: 2 ECC errors\nGPU 5: held by pid 4121"),
        error("port-taken", "port 8000 is taken by pid 12 of bob", where="node.yaml:7:5"),
    )
    assert plan_text(
        plan_of(blocked(spec("chat"), *reasons), wanted(spec("a")), engines=[running(spec("a"))])
    ) == golden(
        """
        Plan for gpu-07 from states/node.yaml

          ! chat@0  blocked  it cannot be started here
              [no-executable] cannot find the executable /nonexistent/vllm
                hint: install it, or name another
              [not-enough-gpus] cannot give it 2 GPUs: 1 is free
                GPU 3: 2 ECC errors
                GPU 5: held by pid 4121
              [port-taken] node.yaml:7:5: port 8000 is taken by pid 12 of bob

        Plan: 0 to start, 0 to replace, 0 to stop, 0 to adopt; 1 unchanged, 1 blocked.
        """
    )


def test_a_blocked_replacement_says_that_the_running_one_is_kept():
    plan = plan_of(blocked(spec(dtype="half"), error("no-executable", "cannot find vllm")), engines=[running()])
    assert plan_text(plan) == golden("""
        Plan for gpu-07 from states/node.yaml

          ! chat@0  blocked  kept as it runs
              dtype  (unset) => half  # forces replacement
              [no-executable] cannot find vllm

        Plan: 0 to start, 0 to replace, 0 to stop, 0 to adopt; 0 unchanged, 1 blocked.
        """)


def noted():
    seen = running(spec("chat"))
    return seen._replace(launch=seen.launch | {"argv": ["/usr/bin/vllm", *seen.launch["argv"][1:], "--old"]})


def test_what_the_next_start_does_differently_is_a_note_and_no_change():
    assert plan_text(plan_of(wanted(spec("chat")), engines=[noted()])) == golden("""
        Plan for gpu-07 from states/node.yaml

            chat@0  keep     it runs as the state file says
              ~ at next start
                command.--old  true => (unset)
                executable     /usr/bin/vllm => /opt/vllm/bin/vllm

        No changes. 1 engine runs as the state file says.
        """)


def test_warnings_follow_the_actions():
    plan = plan_of(
        blocked(spec("chat"), error("no-executable", "cannot find vllm")),
        engines=[running(spec("chat"))],
        diagnostics=(warning("memlock", "the limit is 64 KiB", "raise it", where="gpu-07"),),
    )
    assert plan_text(plan) == golden("""
        warning[memlock] gpu-07: the limit is 64 KiB
          hint: raise it
        warning[no-executable] chat@0: cannot find vllm

        No changes. 1 engine runs as the state file says.
        """)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        pytest.param(
            plan_of(*(wanted(spec(n)) for n in "abc"), engines=[running(spec(n)) for n in "abc"]),
            "No changes. 3 engines run as the state file says.\n",
            id="three",
        ),
        pytest.param(
            plan_of(wanted(), engines=[running()]), "No changes. 1 engine runs as the state file says.\n", id="one"
        ),
        pytest.param(plan_of(), "No changes. The state file asks for no engine, and none runs.\n", id="none"),
    ],
)
def test_nothing_to_do_is_one_sentence(plan, sentence):
    assert plan_text(plan) == sentence


def test_an_unreadable_node_is_not_called_unchanged():
    plan = plan_of(diagnostics=(error("nvidia-smi-failed", "driver and library differ", where="gpu-07"),))
    assert plan_text(plan) == golden("""
        error[nvidia-smi-failed] gpu-07: driver and library differ

        No change can be planned before these errors are cured.
        """)


def test_kept_engines_show_when_asked_for():
    assert plan_text(plan_of(wanted(spec(), CARDS[0]), engines=[running(spec(), CARDS[0])]), verbose=True) == golden("""
        Plan for gpu-07 from states/node.yaml

            chat@0  keep     it runs as the state file says
              gpus  0 (h100-80g)
              port  8000

        No changes. 1 engine runs as the state file says.
        """)


def test_a_narrow_terminal_wraps_and_keeps_the_indents():
    plan = plan_of(
        wanted(spec("chat", served_model_name=("chat", "chat-large")), CARDS[0]),
        engines=[running(spec("chat", served_model_name=("chat", "chat-small")), CARDS[0])],
    )
    assert plan_text(plan, width=40) == golden("""
        Plan for gpu-07 from states/node.yaml

        -/+ chat@0  replace  served_model_name
              changed
              served_model_name  [chat,
                chat-small]
                => [chat, chat-large]
                # forces replacement
              gpus               0 (h100-80g)
              port               8000

        Plan: 0 to start, 1 to replace, 0 to
              stop, 0 to adopt; 0 unchanged, 0
              blocked.
        """)


def test_cards_of_two_classes_stand_apart():
    action = Action(
        ActionKind.STOP,
        "chat@0",
        "",
        gpus=("GPU-0", "GPU-1", "GPU-x"),
        gpu_labels=("0", "1", "GPU-x"),
        gpu_classes=("h100-80g", "a100-80g", "unknown"),
    )
    assert "gpus  0 (h100-80g), 1 (a100-80g), GPU-x (unknown)\n" in plan_text(Plan("n", "s", (action,)))


def test_colour_adds_nothing_but_colour():
    plan = plan_of(start(), blocked(spec("b"), error("x", "y")), engines=[running(spec("z"))])
    colored = plan_text(plan, width=80, color=True)
    assert "\x1b[32m  +\x1b[0m \x1b[1mchat@0\x1b[0m  start" in colored
    assert "\x1b[31m  -\x1b[0m \x1b[1mz@0   \x1b[0m  stop" in colored
    for code in ("0", "1", "31", "32"):
        colored = colored.replace(f"\x1b[{code}m", "")
    assert colored == plan_text(plan, width=80)


def test_text_of_others_cannot_steer_the_terminal():
    change = FieldChange("labels.\x1b[2J", "a\rb", "\u202egnp", forces_replace=False)
    action = Action(ActionKind.UPDATE, "chat@0", "x\x1b]0;title\x07y", changes=(change,))
    text = plan_text(Plan("n\x1b[1m", "s\x07.yaml", (action,), (warning("c", "m\x1b[31m", "h\x00"),)))
    assert set(text) - {"\n"} == {c for c in text if c.isprintable()}


def test_the_canary_shows_nowhere():
    of = spec(
        api_key=SecretRef("env", "KEY"),
        env={"HF_TOKEN": "canary-1", "PROXY": "http://me:canary-2@proxy"},
        args=("--api-key", "canary-3", "--hf-token=canary-4"),
    )
    environment = (("HF_TOKEN", "canary-1"), ("PROXY", "http://me:canary-2@proxy"))
    argv = (VLLM, "--api-key", "canary-3", "--hf-token=canary-4")
    want = wanted(of, launch=launch(of, argv=argv, env=environment), secret_digests={"api_key": "new"})
    for engines in ([], [running()], [running(of, secret_digests={"api_key": "old"})], [running(of)]):
        for verbose in (False, True):
            assert "canary" not in plan_text(plan_of(want, engines=engines), verbose=verbose, color=True)


def test_words_without_wrapping_need_no_large_import():
    code = (
        "import sys\n"
        "from llmgw_reconcile.plan.actions import Plan\n"
        "from llmgw_reconcile.render.plan_text import plan_text\n"
        "plan_text(Plan('n', 's', ()), color=True)\n"
        "print(sorted({'rich', 'jsonschema', 'textwrap', 'shlex', 'dataclasses', 'datetime'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
