"""Measure llmgw against its goals and print the ratios: `python bench/run.py [p1] [p2] [p4] [--rounds N]`.

P1  `llmgw --help` and `--version`, against the help of a bare click app
P2  a plan that finds nothing to do, for 8 and 64 running engines, against `python -c "import click, yaml"`
P4  from the first answer of an engine to the line in which apply says that it is ready

Whole processes are timed by the wall clock, commands in turn, after a round of warm-up. A ratio carries over to another
machine, milliseconds do not. On a busy machine run it as root under `chrt -r 1`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.fakes.node import LLMGW, Node  # noqa: E402
from tests.fakes.nvidia_smi import h100  # noqa: E402

Command = Sequence[str]
Samples = dict[str, list[float]]


def time_in_turn(commands: Mapping[str, Command], rounds: int, env: Mapping[str, str] | None = None) -> Samples:
    """Milliseconds of each command in each round; the first round is not counted."""
    samples: Samples = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            start = time.perf_counter()
            done = subprocess.run(command, check=False, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            elapsed = (time.perf_counter() - start) * 1000
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.decode()}")
            if number:
                samples[name].append(elapsed)
    return samples


def show(goal: str, what: str, values: list[float], verdict: str) -> None:
    spread = f"{statistics.median(values):8.1f} ms  [{min(values):.1f}-{max(values):.1f}] n={len(values)}"
    print(f"{goal:3} {what:28} {spread:38} {verdict}", flush=True)


def show_ratios(goal: str, samples: Samples, limits: Mapping[str, float]) -> None:
    """Each row against the first one."""
    (base, reference), *others = samples.items()
    show(goal, base, reference, "1.00x")
    for name, values in others:
        ratio = statistics.median(values) / statistics.median(reference)
        verdict = f"{ratio:.2f}x"
        if name in limits:
            verdict += f"  goal <= {limits[name]}x: {'holds' if ratio <= limits[name] else 'MISSED'}"
        show(goal, name, values, verdict)


def p1(rounds: int) -> None:
    commands = {
        "a bare click app --help": [sys.executable, str(HERE / "bare_click.py"), "--help"],
        "llmgw --help": [LLMGW, "--help"],
        "llmgw --version": [LLMGW, "--version"],
    }
    if ansible := shutil.which("ansible-playbook"):
        commands["ansible-playbook --help"] = [ansible, "--help"]
    show_ratios("P1", time_in_turn(commands, rounds), {"llmgw --help": 1.5, "llmgw --version": 1.5})


@contextmanager
def running(count: int, **env: str) -> Iterator[tuple[Node, Path]]:
    """A node on which so many lean engines run, one on each of its GPUs, and their state file."""
    node = Node(Path(tempfile.mkdtemp(prefix="lg-")))
    engine = node.bin / "lean"
    engine.write_text(f"#!{sys.executable} -IS\n{(HERE / 'lean_engine.py').read_text()}")
    engine.chmod(0o755)
    calls = node.root / "calls"
    node.gpus(*map(h100, range(count)), calls=str(calls))
    models = [node.model(f"m{n}", executable=str(engine), env=env) for n in range(count)]
    state = node.state(*models)
    try:
        node.apply(state)
        node.plan(state)
        answer_at_once(node, set(calls.read_text().splitlines()))
        yield node, state
    finally:
        node.leave()


def answer_at_once(node: Node, calls: set[str]) -> None:
    """Replace the fake nvidia-smi by a shell script that knows the answers to these calls by heart."""
    tool = node.bin / "nvidia-smi"
    cases = []
    for number, call in enumerate(sorted(calls)):
        answer = node.root / f"answer-{number}"
        done = subprocess.run([tool, *call.split(" ")], env=node.env, stdout=subprocess.PIPE, check=True)
        answer.write_bytes(done.stdout)
        cases.append(f"'{call}') while IFS= read -r line; do printf '%s\\n' \"$line\"; done <{answer};;")
    tool.write_text("\n".join(["#!/bin/sh", 'case "$*" in', *cases, "*) exit 2;;", "esac", ""]))


def p2(rounds: int) -> None:
    base = 'python -c "import click, yaml"'
    for count, limit in ((8, 2.0), (64, 2.5)):
        with running(count) as (node, state):
            plan = f"llmgw plan, {count} engines"
            commands = {base: [sys.executable, "-c", "import click, yaml"], plan: [LLMGW, "plan", str(state)]}
            found = node.plan(state)["actions"]
            if {action["action"] for action in found} != {"keep"}:
                raise SystemExit(f"the plan is not empty: {found}")
            show_ratios("P2", time_in_turn(commands, rounds, node.env), {plan: limit})


def p4(rounds: int) -> None:
    delays = [_ready_delay() for _ in range(max(3, rounds // 3))]
    median = statistics.median(delays)
    show("P4", "answers -> reported ready", delays, f"goal <= 50 ms: {'holds' if median <= 50 else 'MISSED'}")


def _ready_delay() -> float:
    """Milliseconds from an engine's first answer to the ready event of the apply that started it."""
    node = Node(Path(tempfile.mkdtemp(prefix="lg-")))
    engine, mark = node.bin / "lean", node.root / "mark"
    engine.write_text(f"#!{sys.executable} -IS\n{(HERE / 'lean_engine.py').read_text()}")
    engine.chmod(0o755)
    try:
        state = node.state(node.model(executable=str(engine), env={"BENCH_DELAY": "1.0", "BENCH_MARK": str(mark)}))
        apply = node.begin("apply", state, "-o", "json")
        seen = 0
        for line in apply.stdout or ():
            event = json.loads(line)
            if event.get("event") == "phase" and event.get("phase") == "ready":
                seen = time.monotonic_ns()
        apply.communicate()
        return (seen - int(mark.read_text())) / 1e6
    finally:
        node.leave()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("goals", nargs="*", metavar="p1|p2|p4", help="default: all")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    for name, measure in {"p1": p1, "p2": p2, "p4": p4}.items():
        if not options.goals or name in options.goals:
            measure(options.rounds)


if __name__ == "__main__":
    main()
