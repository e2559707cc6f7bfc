"""What speaks against an engine on this node; it concerns that engine alone."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.checkpoint import Checkpoint, OwnQuantization, Stored
from llmgw_reconcile.model.desired import Device, EngineKind
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.installed import Installed
from llmgw_reconcile.model.inventory import Inventory, Limits
from llmgw_reconcile.model.launch import Placement
from llmgw_reconcile.model.observed import ForeignProcess
from llmgw_reconcile.validate.facts import EngineFacts
from llmgw_reconcile.validate.node_rules import check_cordon, check_engine
from tests.fakes.placed import A100, H100, L40S, T4, V100, a_node, a_placement, gpu, h100s

SGLANG = EngineKind.SGLANG
KNOWN = Checkpoint("/m", layers=80, weights=(Stored("BF16", 1 << 30),))
FOUND = EngineFacts(executable="/opt/v/bin/vllm", checkpoint=KNOWN, needs_start=True)


def quantized(method: str, scheme: str | None = None) -> EngineFacts:
    """The facts of a checkpoint that says so of itself."""
    return FOUND._replace(checkpoint=KNOWN._replace(quantization=OwnQuantization(method, scheme)))


def found(placement: Placement, facts: EngineFacts = FOUND, **limits: Any) -> list[tuple[Severity, str, str]]:
    diagnostics = check_engine(placement, facts, a_node(*placement.gpus, limits=Limits(**limits)))
    assert {d.where for d in diagnostics} <= {"chat@0"}
    return [(d.severity, d.code, d.message) for d in diagnostics]


def test_an_engine_that_has_all_it_needs_is_fine() -> None:
    assert found(a_placement(gpu(0), gpu(1), tensor_parallel_size=2), ephemeral_ports=(32768, 60999)) == []


@pytest.mark.parametrize(
    ("facts", "code", "message"),
    [
        pytest.param(
            EngineFacts(executable=None, executable_problem="no vllm in /usr/local/bin:/usr/bin"),
            "executable-missing",
            "no vllm in /usr/local/bin:/usr/bin",
            id="executable-not-on-path",
        ),
        pytest.param(
            EngineFacts(executable=None),
            "executable-missing",
            "/opt/engine/bin/engine: not found",
            id="executable-without-a-reason",
        ),
        pytest.param(
            EngineFacts(executable="/x", model_problem="/srv/m: no such directory"),
            "model-missing",
            "/srv/m: no such directory",
            id="model-path",
        ),
        pytest.param(
            EngineFacts(executable="/x", listener=ForeignProcess(4121, "alice", "python app.py", "port 8000")),
            "port-taken",
            "port 8000 is taken by pid 4121 python app.py of alice",
            id="port-of-a-stranger",
        ),
        pytest.param(
            EngineFacts(executable="/x", listener=ForeignProcess(None, None, None, "port 8000")),
            "port-taken",
            "port 8000 is taken by a process that is not visible",
            id="port-of-somebody-unseen",
        ),
        pytest.param(
            EngineFacts(executable="/x", address_problem="10.9.9.9 is no address of this node"),
            "address-unusable",
            "10.9.9.9 is no address of this node",
            id="address",
        ),
    ],
)
def test_what_is_missing_blocks_the_engine(facts: EngineFacts, code: str, message: str) -> None:
    assert found(a_placement(gpu(0)), facts) == [(Severity.ERROR, code, message)]


def test_all_reasons_are_told_at_once() -> None:
    facts = EngineFacts(
        executable=None,
        executable_problem="no vllm",
        model_problem="/m: missing",
        checkpoint=Checkpoint("/m", quantization=OwnQuantization("fp8")),
        needs_start=True,
        listener=ForeignProcess(1, None, "x", ""),
        address_problem="bad address",
    )
    assert [code for _, code, _ in found(a_placement(gpu(0, A100), gpu(1, H100)), facts)] == [
        "executable-missing",
        "model-missing",
        "port-taken",
        "address-unusable",
        "mixed-gpu-classes",
        "fp8-weight-only",
    ]


def test_a_group_over_two_classes_is_blocked() -> None:
    assert found(a_placement(gpu(0, A100), gpu(1, H100))) == [
        (
            Severity.ERROR,
            "mixed-gpu-classes",
            "its GPUs are of different classes: GPU 0 (a100-80g), GPU 1 (h100-80g)",
        )
    ]


def test_a_card_of_unknown_class_is_not_taken_for_another_class() -> None:
    unknown = Gpu(index=None, uuid="GPU-9", name=None, gpu_class="unknown", memory_total_mb=81559)
    assert found(a_placement(gpu(0), unknown)) == []


def test_a_port_of_the_nodes_own_range_is_a_warning() -> None:
    assert found(a_placement(gpu(0), port=8000), ephemeral_ports=(1024, 65535)) == [
        (
            Severity.WARNING,
            "ephemeral-port",
            "port 8000 is among the ports that this node gives to whoever asks for any (1024-65535)",
        )
    ]


# ---- quantization ----

POLICY = "policy: the engine would run weight-only W8A16 (Marlin): memory saved, no fp8 arithmetic"


@pytest.mark.parametrize(
    ("placement", "facts", "expected"),
    [
        pytest.param(
            a_placement(gpu(0, A100), quantization="fp8"),
            FOUND,
            [
                (
                    Severity.ERROR,
                    "fp8-weight-only",
                    f"quantization fp8 needs compute capability 8.9, but GPU 0 (a100-80g) has 8.0; {POLICY}",
                )
            ],
            id="fp8-on-ampere-is-a-policy",
        ),
        pytest.param(
            a_placement(gpu(0, A100), quantization="fp8", accept=("fp8-weight-only",)), FOUND, [], id="accepted"
        ),
        pytest.param(a_placement(gpu(0, L40S), quantization="fp8"), FOUND, [], id="fp8-on-ada"),
        pytest.param(a_placement(gpu(0, H100), quantization="fp8"), FOUND, [], id="fp8-on-hopper"),
        pytest.param(
            a_placement(gpu(0, V100), quantization="fp8", accept=("fp8-weight-only",)),
            FOUND,
            [
                (
                    Severity.ERROR,
                    "quantization-unsupported",
                    ("quantization fp8 needs compute capability 7.5 in vLLM 0.33.0, but GPU 0 (v100-32g) has 7.0"),
                )
            ],
            id="below-the-minimum-nothing-helps",
        ),
        pytest.param(
            a_placement(gpu(0, T4), engine=SGLANG, quantization="fp8", accept=("fp8-weight-only",)),
            FOUND,
            [
                (
                    Severity.ERROR,
                    "quantization-unsupported",
                    "quantization fp8 needs compute capability 8.0 in SGLang 0.5.23, but GPU 0 (t4-15g) has 7.5",
                )
            ],
            id="the-minimum-is-the-engines",
        ),
        pytest.param(
            a_placement(gpu(0, T4), quantization="fp8", accept=("fp8-weight-only",)), FOUND, [], id="vllm-goes-lower"
        ),
        pytest.param(
            a_placement(gpu(0, A100), args=("-q", "fp8")),
            FOUND,
            [
                (
                    Severity.ERROR,
                    "fp8-weight-only",
                    f"quantization fp8 in args needs compute capability 8.9, but GPU 0 (a100-80g) has 8.0; {POLICY}",
                )
            ],
            id="in-args",
        ),
        pytest.param(
            a_placement(gpu(0, A100), gpu(1, A100)),
            quantized("compressed-tensors", "float-quantized"),
            [
                (
                    Severity.ERROR,
                    "fp8-weight-only",
                    (
                        "quantization compressed-tensors/float-quantized of the checkpoint needs compute capability "
                        f"8.9, but GPU 0 (a100-80g) has 8.0, GPU 1 (a100-80g) has 8.0; {POLICY}"
                    ),
                )
            ],
            id="in-the-checkpoint",
        ),
        pytest.param(
            a_placement(gpu(0, A100)),
            quantized("compressed-tensors", "pack-quantized"),
            [],
            id="a-checkpoint-of-integers",
        ),
        pytest.param(
            a_placement(gpu(0, A100), quantization="fp8", accept=("fp8-weight-only",)),
            quantized("fp8"),
            [],
            id="a-checkpoint-that-says-the-same",
        ),
        pytest.param(
            a_placement(gpu(0, V100), quantization="awq"),
            quantized("awq"),
            [
                (
                    Severity.ERROR,
                    "quantization-unsupported",
                    "quantization awq needs compute capability 7.5 in vLLM 0.33.0, but GPU 0 (v100-32g) has 7.0",
                )
            ],
            id="awq-on-volta",
        ),
        pytest.param(
            a_placement(gpu(0, H100)),
            quantized("modelopt_fp4"),
            [
                (
                    Severity.WARNING,
                    "fp4-weight-only",
                    (
                        "quantization modelopt_fp4 of the checkpoint computes in fp4 from 10.0 on, but "
                        "GPU 0 (h100-80g) has 9.0: weight-only W4A16"
                    ),
                )
            ],
            id="fp4-on-hopper-is-told",
        ),
        pytest.param(
            a_placement(gpu(0, A100), quantization="brand-new"),
            FOUND,
            [
                (
                    Severity.WARNING,
                    "unknown-quantization",
                    (
                        "quantization brand-new: not among the methods known of vLLM 0.33.0, so its needs were not "
                        "checked"
                    ),
                ),
                (
                    Severity.NOTE,
                    "fit-unknown",
                    "whether it fits was not estimated: what brand-new makes of its weights is not known",
                ),
            ],
            id="an-unknown-method",
        ),
        pytest.param(
            a_placement(gpu(0, H100, compute_capability=None), gpu(1, H100), quantization="fp8"),
            FOUND,
            [
                (
                    Severity.WARNING,
                    "unknown-capability",
                    "quantization fp8: the compute capability of GPU 0 (h100-80g) is not known, so it was not checked",
                )
            ],
            id="an-unknown-capability",
        ),
        pytest.param(a_placement(device=Device.CPU, quantization="awq"), quantized("awq"), [], id="on-the-cpu"),
    ],
)
def test_a_quantization_is_judged_by_engine_and_gpu(
    placement: Placement, facts: EngineFacts, expected: list[tuple[Severity, str, str]]
) -> None:
    assert found(placement, facts) == expected


@pytest.mark.parametrize(
    ("version", "code", "message"),
    [
        (
            "0.12.0",
            "quantization-unsupported",
            "quantization fp8 needs compute capability 8.0 in vLLM 0.12.0, but GPU 0 (t4-15g) has 7.5",
        ),
        (
            "0.14.0",
            "fp8-weight-only",
            f"quantization fp8 needs compute capability 8.9, but GPU 0 (t4-15g) has 7.5; {POLICY}",
        ),
    ],
)
def test_the_installed_version_decides_what_is_a_fact_and_what_a_policy(version: str, code: str, message: str) -> None:
    facts = FOUND._replace(installed=Installed(version))
    assert found(a_placement(gpu(0, T4), quantization="fp8"), facts) == [(Severity.ERROR, code, message)]


def test_weights_that_stay_alone_in_fp8_by_design_lose_nothing_on_ampere() -> None:
    own = OwnQuantization("compressed-tensors", "float-quantized", weight_only=True)
    assert found(a_placement(gpu(0, A100)), FOUND._replace(checkpoint=KNOWN._replace(quantization=own))) == []


def test_experts_in_accepted_fp8_are_warned_of() -> None:
    facts = FOUND._replace(checkpoint=KNOWN._replace(quantization=OwnQuantization("fp8"), experts=128))
    assert found(a_placement(gpu(0, A100), accept=("fp8-weight-only",)), facts) == [
        (
            Severity.WARNING,
            "fp8-experts",
            "quantization fp8 of the checkpoint: fp8 experts below 8.9 work in some releases and fail in others",
        )
    ]
    assert found(a_placement(gpu(0, H100)), facts) == []


def test_a_method_of_stored_weights_finds_none_in_16_bit() -> None:
    message = "quantization awq needs weights that were quantized so; /m says nothing of it"
    assert (Severity.WARNING, "quantization-mismatch", message) in found(a_placement(gpu(0), quantization="awq"))
    assert [code for _, code, _ in found(a_placement(gpu(0), quantization="fp8"))] == []


@pytest.mark.parametrize(
    ("placement", "asked"),
    [
        (a_placement(gpu(0, A100), kv_cache_dtype="fp8"), "kv_cache_dtype fp8"),
        (a_placement(gpu(0, A100), args=("--kv-cache-dtype=fp8_e5m2",)), "kv_cache_dtype fp8_e5m2"),
    ],
)
def test_an_fp8_cache_falls_under_the_same_policy(placement: Placement, asked: str) -> None:
    assert found(placement) == [
        (
            Severity.ERROR,
            "fp8-weight-only",
            (
                f"{asked} needs compute capability 8.9, but GPU 0 (a100-80g) has 8.0; policy: the engine would keep "
                "its cache in fp8 and compute in 16 bit: memory saved, no fp8 arithmetic"
            ),
        )
    ]


@pytest.mark.parametrize(
    "placement",
    [
        a_placement(gpu(0, A100), kv_cache_dtype="auto"),
        a_placement(gpu(0, A100), kv_cache_dtype="fp8", accept=("fp8-weight-only",)),
        a_placement(gpu(0, H100), kv_cache_dtype="fp8"),
    ],
    ids=["another-type", "accepted", "on-hopper"],
)
def test_other_caches_pass(placement: Placement) -> None:
    assert found(placement) == []


def test_a_refusal_by_policy_names_the_code_that_accepts_it() -> None:
    (refusal,) = check_engine(a_placement(gpu(0, A100), quantization="fp8"), FOUND, a_node(gpu(0, A100)))
    assert refusal.hint == "to run it so: `accept: [fp8-weight-only]`"


# ---- cordon ----


def test_a_cordon_that_names_nothing_is_told() -> None:
    assert [(d.severity, d.where) for d in check_cordon(("0", "GPU-77", "0000:10:00.0"), h100s(2))] == [
        (Severity.WARNING, "GPU GPU-77")
    ]


def test_a_cordon_is_not_judged_while_the_cards_are_not_known() -> None:
    broken = (Diagnostic(Severity.ERROR, "nvidia-smi-failed", "nvidia-smi", "exit 18"),)
    assert check_cordon(("0",), Inventory(node="n", source="nvidia-smi", problems=broken)) == ()
