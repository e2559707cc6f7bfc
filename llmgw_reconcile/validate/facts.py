"""What was found on the node for one engine, for the rules to judge."""

from __future__ import annotations

from typing import NamedTuple

from llmgw_reconcile.model.observed import ForeignProcess


class EngineFacts(NamedTuple):
    """Each `…_problem` is empty, or says in words what is wrong; unknown is None."""

    executable: str | None  # absolute path, found and executable
    executable_problem: str = ""  # what was looked for, and where
    model_problem: str = ""  # of a local path; a hub id has none
    model_quantization: str | None = None  # quantization_config.quant_method of a local config.json
    model_quantization_format: str | None = None  # quantization_config.format: the scheme of compressed-tensors
    listener: ForeignProcess | None = None  # a stranger on the engine's port
    address_problem: str = ""  # of `host`
