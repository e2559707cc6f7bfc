"""An engine that requests can be sent to now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.model.desired import NOTHING, SecretRef
from llmgw_reconcile.model.spec import model_of


class Endpoint(NamedTuple):
    """Where a ready engine is reached; its key by reference only."""

    engine: str
    kind: str  # vllm | sglang | llama-cpp
    served: tuple[str, ...]  # the names that a request may give as `model`
    host: str
    port: int
    api_key: SecretRef | None = None
    labels: Mapping[str, str] = NOTHING

    @property
    def model(self) -> str:
        """The name of its entry in the state file."""
        return model_of(self.engine)

    @property
    def address(self) -> str:
        """Host and port as one word; an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Without a path: OpenAI's API is below `/v1`."""
        return f"http://{self.address}"
