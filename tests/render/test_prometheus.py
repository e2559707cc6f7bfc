"""The metrics as a strict reader of the text format sees them: every line has its place, and nothing is said twice."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.gpu import Gpu, GpuHealth
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.model.observed import ObservedEngine, ObservedState, Phase
from llmgw_reconcile.plan.actions import ActionKind
from llmgw_reconcile.render.prometheus import Family, LastApply, NodeReport, node_families, prometheus_text

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|NaN|[+-]Inf)")
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Parsed(NamedTuple):
    """One family, as it was read."""

    kind: str
    help: str
    samples: dict[tuple[tuple[str, str], ...], float]


def parse(text: str) -> dict[str, Parsed]:
    """Read the text format, version 0.0.4, and accept nothing that is not in it; HELP, TYPE, samples of each family."""
    assert text.endswith("\n")
    families: dict[str, Parsed] = {}
    lines = iter(text.removesuffix("\n").split("\n"))
    name = kind = ""
    for line in lines:
        if line.startswith("# HELP "):
            _, _, name, words = line.split(" ", 3)
            assert name not in families, f"{name} comes twice"
            typed = re.fullmatch(rf"# TYPE {re.escape(name)} (gauge|counter)", next(lines))
            assert typed, f"{name} has no type"
            kind = typed[1]
            families[name] = Parsed(kind, words, {})
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, f"no sample: {line}"
        assert sample[1] == name, f"{line} stands with {name}"
        labels = labels_of(sample[2] or "")
        assert labels not in families[name].samples, f"{line} comes twice"
        families[name].samples[labels] = float(sample[3])
    assert all(family.samples for family in families.values())
    return families


def labels_of(text: str) -> tuple[tuple[str, str], ...]:
    found, at = [], 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, f"no label: {text[at:]}"
        found.append((match[1], re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], match[2])))
        at = match.end()
    assert len({name for name, _ in found}) == len(found)
    return tuple(found)


def report(*engines: ObservedEngine, **changed: Any) -> NodeReport:
    plain = NodeReport("gpu-07", "0.1.0", ObservedState(engines=engines), Inventory("gpu-07", "nvidia-smi"))
    return plain._replace(**changed)


def metrics(*engines: ObservedEngine, **changed: Any) -> dict[str, Parsed]:
    return parse(prometheus_text(node_families(report(*engines, **changed))))


def engine(name: str = "chat@0", phase: Phase = Phase.READY, **fields: Any) -> ObservedEngine:
    return ObservedEngine(engine=name, phase=phase, **fields)


CHAT = (("engine", "chat@0"), ("model", "chat"))


def test_a_node_is_told_word_for_word() -> None:
    gpu = Gpu(index=0, uuid="GPU-0", name="NVIDIA H100", gpu_class="h100-80g", pci_bus_id="00000000:1B:00.0")
    text = prometheus_text(
        node_families(
            report(
                inventory=Inventory("gpu-07", "nvidia-smi", gpus=(gpu,)),
                pending={ActionKind.START: 2, ActionKind.BLOCKED: 1},
                last_apply=LastApply("2027-01-05T10:00:00Z", "/srv/node.yaml", "5f0b02c7", ok=True),
            )
        )
    )
    assert text == (
        "# HELP llmgw_info The llmgw that tells this.\n"
        "# TYPE llmgw_info gauge\n"
        'llmgw_info{node="gpu-07",version="0.1.0"} 1\n'
        "# HELP llmgw_records_readable Whether the records of all engines could be read.\n"
        "# TYPE llmgw_records_readable gauge\n"
        "llmgw_records_readable 1\n"
        "# HELP llmgw_gpus_known Whether the GPUs could be read; if not, there are no samples of them.\n"
        "# TYPE llmgw_gpus_known gauge\n"
        "llmgw_gpus_known 1\n"
        "# HELP llmgw_gpu_healthy Whether nothing speaks against placing an engine on the GPU, memory held by others"
        " included.\n"
        "# TYPE llmgw_gpu_healthy gauge\n"
        'llmgw_gpu_healthy{gpu="0",uuid="GPU-0",pci="00000000:1B:00.0",class="h100-80g"} 1\n'
        "# HELP llmgw_pending_changes Engines that an apply of the state applied last would change now.\n"
        "# TYPE llmgw_pending_changes gauge\n"
        'llmgw_pending_changes{action="start"} 2\n'
        'llmgw_pending_changes{action="stop"} 0\n'
        'llmgw_pending_changes{action="replace"} 0\n'
        'llmgw_pending_changes{action="adopt"} 0\n'
        'llmgw_pending_changes{action="update"} 0\n'
        "# HELP llmgw_blocked_engines Engines that the state applied last asks for, and that this node cannot host"
        " now.\n"
        "# TYPE llmgw_blocked_engines gauge\n"
        "llmgw_blocked_engines 1\n"
        "# HELP llmgw_last_apply_timestamp_seconds When a state was applied last.\n"
        "# TYPE llmgw_last_apply_timestamp_seconds gauge\n"
        "llmgw_last_apply_timestamp_seconds 1799143200\n"
        "# HELP llmgw_last_apply_success Whether all of the last apply could be done.\n"
        "# TYPE llmgw_last_apply_success gauge\n"
        "llmgw_last_apply_success 1\n"
        "# HELP llmgw_last_apply_info The file that was applied last, and the commit that it came from.\n"
        "# TYPE llmgw_last_apply_info gauge\n"
        'llmgw_last_apply_info{file="/srv/node.yaml",commit="5f0b02c7"} 1\n'
    )
    assert parse(text)


def test_an_engine_is_in_one_phase() -> None:
    samples = metrics(engine(phase=Phase.LOADING))["llmgw_engine_phase"].samples
    assert len(samples) == 10
    assert {labels[-1][1] for labels, value in samples.items() if value} == {"loading"}


@pytest.mark.parametrize(
    ("seen", "ready", "load", "restarts"),
    [
        pytest.param(
            engine(since="2027-01-05T10:00:00Z", load_seconds=61.25, restarts=2), 1799143200.0, 61.25, 2.0, id="ready"
        ),
        pytest.param(engine(phase=Phase.FAILED, since="2027-01-05T10:00:00Z"), None, None, 0.0, id="failed"),
        pytest.param(engine(since=None), None, None, 0.0, id="since nobody knows when"),
        pytest.param(engine(since="yesterday"), None, None, 0.0, id="a time that is none"),
    ],
)
def test_what_is_not_known_has_no_sample(
    seen: ObservedEngine, ready: float | None, load: float | None, restarts: float
) -> None:
    found = metrics(seen)
    none = Parsed("gauge", "", {})
    assert found.get("llmgw_engine_ready_timestamp_seconds", none).samples.get(CHAT) == ready
    assert found.get("llmgw_engine_load_seconds", none).samples.get(CHAT) == load
    assert found["llmgw_engine_restarts"].samples[CHAT] == restarts


def test_nothing_is_said_of_drift_or_of_applies_that_are_not_known() -> None:
    assert [name for name in metrics() if "pending" in name or "blocked" in name or "apply" in name] == []
    under_way = metrics(last_apply=LastApply("2027-01-05T10:00:00Z", "-"))
    assert "llmgw_last_apply_success" not in under_way
    assert under_way["llmgw_last_apply_info"].samples == {(("file", "-"), ("commit", "")): 1.0}


def test_a_card_that_is_unfit_and_one_that_was_lost_are_not_healthy() -> None:
    sick = Gpu(3, "GPU-3", "NVIDIA H100", "h100-80g", health=GpuHealth(2, problems=("2 uncorrected ECC errors",)))
    lost = Gpu(None, None, None, "unknown", pci_bus_id="00000000:3B:00.0", health=GpuHealth(problems=("lost",)))
    found = metrics(inventory=Inventory("gpu-07", "nvidia-smi", gpus=(sick, lost)))["llmgw_gpu_healthy"].samples
    assert found == {
        (("gpu", "3"), ("uuid", "GPU-3"), ("pci", ""), ("class", "h100-80g")): 0.0,
        (("gpu", ""), ("uuid", ""), ("pci", "00000000:3B:00.0"), ("class", "unknown")): 0.0,
    }


def test_cards_that_could_not_be_read_are_not_zero_cards() -> None:
    problem = Diagnostic(Severity.ERROR, "nvidia-smi-failed", "nvidia-smi", "exit code 9")
    half = Gpu(0, "GPU-0", "NVIDIA H100", "h100-80g")  # what a tool printed before it failed
    found = metrics(inventory=Inventory("gpu-07", "none", gpus=(half,), problems=(problem,)))
    assert found["llmgw_gpus_known"].samples == {(): 0.0}
    assert "llmgw_gpu_healthy" not in found


@pytest.mark.parametrize(
    ("file", "read"),
    [
        ('/srv/"quoted" \\n/node.yaml', '/srv/"quoted" \\n/node.yaml'),
        ("/srv/a\nb", "/srv/a\\x0ab"),
        ('/srv/{a="b"},x', '/srv/{a="b"},x'),
        ("/srv/\udcff", "/srv/\\xff"),
        ("/srv/ünïcode", "/srv/ünïcode"),
    ],
)
def test_whatever_a_path_holds_is_one_label(file: str, read: str) -> None:
    found = metrics(last_apply=LastApply("2027-01-05T10:00:00Z", file))
    assert found["llmgw_last_apply_info"].samples == {(("file", read), ("commit", "")): 1.0}


def test_a_help_with_a_line_break_stays_one_line() -> None:
    text = prometheus_text([Family("x", "a\nb\\c", (((), 1.5),), "counter")])
    assert text == "# HELP x a\\nb\\\\c\n# TYPE x counter\nx 1.5\n"


def test_the_same_node_gives_the_same_bytes_in_the_same_order() -> None:
    engines = (engine("a@0"), engine("b@0", Phase.HELD))
    assert prometheus_text(node_families(report(*engines))) == prometheus_text(node_families(report(*engines)))
    names = list(metrics(*engines, pending={}, last_apply=LastApply("2027-01-05T10:00:00Z", "-", ok=False)))
    assert names == [
        "llmgw_info",
        "llmgw_engine_phase",
        "llmgw_engine_restarts",
        "llmgw_records_readable",
        "llmgw_gpus_known",
        "llmgw_pending_changes",
        "llmgw_blocked_engines",
        "llmgw_last_apply_timestamp_seconds",
        "llmgw_last_apply_success",
        "llmgw_last_apply_info",
    ]
