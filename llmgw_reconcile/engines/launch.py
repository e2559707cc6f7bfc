"""A placement to the exact launch: argv, environment, GPUs, and how its readiness is asked for."""

from __future__ import annotations

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.engines.environment import Account, clean_environment
from llmgw_reconcile.engines.kind import Kind, Variables
from llmgw_reconcile.engines.nccl import group_environment
from llmgw_reconcile.model.desired import DEFAULT_HOST
from llmgw_reconcile.model.launch import Launch, Placement, ReadyWhen


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
        env=clean_environment(placement, _planned(placement, kind), account=account, tmp_dir=tmp_dir),
        gpus=tuple(gpu.uuid for gpu in placement.gpus if gpu.uuid),
        host=model.host or DEFAULT_HOST,
        port=placement.port,
        served=model.served_model_name,
        api_key=model.api_key,
        health_path=kind.health_path,
        probe_timeout=kind.probe_timeout,
        loading_grace=kind.loading_grace,
        readiness=kind.followers_are_ready if placement.member and not placement.member.is_head else ReadyWhen.SERVES,
    )


def _planned(placement: Placement, kind: Kind) -> Variables:
    model, member = placement.spec.model, placement.member
    if member is None:
        return kind.environment(model)
    of_group = group_environment(member.link, model, address_variable=kind.address_variable)
    return {**kind.environment(model), **of_group}
