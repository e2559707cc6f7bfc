"""Values for tests of the plan and of its words: what is irrelevant to a test does not show in it."""

from __future__ import annotations

from typing import Any

from llmgw_reconcile.errors import Diagnostic, Severity
from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.launch import Launch, Placement, launch_document
from llmgw_reconcile.model.observed import ObservedEngine, Phase, ProcessId
from llmgw_reconcile.model.spec import EngineSpec, engine_id, engines_of
from llmgw_reconcile.plan.reconcile import Wanted

VLLM = "/opt/vllm/bin/vllm"
LEADER, SUPERVISOR = ProcessId(4100, 77001), ProcessId(4099, 77000)


def gpu(index: int, gpu_class: str = "h100-80g") -> Gpu:
    return Gpu(index=index, uuid=f"GPU-{index}", name="NVIDIA H100 80GB HBM3", gpu_class=gpu_class)


def spec(name: str = "chat", replica: int = 0, **fields: Any) -> EngineSpec:
    given = {"model": "org/llama", "engine": EngineKind.VLLM, "served_model_name": (name,), "port": 8000} | fields
    return engines_of(ModelSpec(name=name, replicas=replica + 1, **given))[replica]


def launch(of: EngineSpec, *gpus: Gpu, **changed: Any) -> Launch:
    port = of.port or 8000
    plain = Launch(
        engine=of.engine,
        kind=of.model.engine,
        argv=(VLLM, "serve", of.model.model, "--port", str(port)),
        env=(("CUDA_VISIBLE_DEVICES", ",".join(str(card.uuid) for card in gpus)), ("PATH", "/opt/vllm/bin:/usr/bin")),
        gpus=tuple(str(card.uuid) for card in gpus),
        host="127.0.0.1",
        port=port,
        served=of.model.served_model_name,
    )
    return plain._replace(**changed)


def wanted(of: EngineSpec | None = None, *gpus: Gpu, **changed: Any) -> Wanted:
    of = of or spec()
    start = launch(of, *gpus)
    return Wanted(of, Placement(of, gpus, start.port, VLLM), start)._replace(**changed)


def blocked(of: EngineSpec | None = None, *reasons: Diagnostic) -> Wanted:
    return Wanted(of or spec(), None, None, reasons or (error("no-executable", "cannot find vllm on PATH"),))


def running(of: EngineSpec | None = None, *gpus: Gpu, **changed: Any) -> ObservedEngine:
    """An engine that serves what `of` asks for, under its supervisor."""
    of = of or spec()
    plain = ObservedEngine(
        engine=of.engine,
        phase=Phase.READY,
        live=LEADER,
        supervisor=SUPERVISOR,
        port=of.port,
        host="127.0.0.1",
        gpus=tuple(str(card.uuid) for card in gpus),
        served=of.model.served_model_name,
        spec=of.document,
        bookkeeping=of.bookkeeping,
        launch=launch_document(launch(of, *gpus)),
        secret_digests={},
    )
    return plain._replace(**changed)


def ended(of: EngineSpec | None = None, **changed: Any) -> ObservedEngine:
    """An engine of which a record and nothing else is left."""
    return running(of)._replace(**{"phase": Phase.STOPPED, "live": None, "supervisor": None} | changed)


def error(code: str, message: str, hint: str = "", where: str = engine_id("chat", 0)) -> Diagnostic:
    return Diagnostic(Severity.ERROR, code, where, message, hint)


def warning(code: str, message: str, hint: str = "", where: str = engine_id("chat", 0)) -> Diagnostic:
    return Diagnostic(Severity.WARNING, code, where, message, hint)
