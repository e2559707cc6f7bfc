"""A placement to the exact launch: argv, environment, GPUs, and how its readiness is asked for."""

from __future__ import annotations

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.environment import Account, clean_environment
from llmgw_reconcile.model.desired import DEFAULT_HOST
from llmgw_reconcile.model.launch import Launch, Placement


def derive_launch(placement: Placement, *, account: Account, tmp_dir: str) -> Launch:
    """The launch that follows from a placement, the same for the same input. A field that is absent puts no flag.

    `tmp_dir` is the engine's own TMPDIR. Files and secrets stay references, to be resolved at the start.
    """
    model = placement.spec.model
    kind = KINDS[model.engine]
    return Launch(
        engine=placement.spec.engine,
        kind=model.engine,
        argv=(*model.prefix, *kind.command(placement), *model.args),
        env=clean_environment(placement, kind.environment(model), account=account, tmp_dir=tmp_dir),
        gpus=tuple(gpu.uuid for gpu in placement.gpus if gpu.uuid),
        host=model.host or DEFAULT_HOST,
        port=placement.port,
        served=model.served_model_name,
        api_key=model.api_key,
        health_path=kind.health_path,
        probe_timeout=kind.probe_timeout,
        loading_grace=kind.loading_grace,
    )
