"""What the state file asks for, field by field (contract §4). A field that the file leaves out is None or empty."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from llmgw_reconcile.errors import Diagnostic

DEFAULT_HOST = "127.0.0.1"
DEFAULT_HELD_ABOVE_MB = 1024
NOTHING: Mapping[str, str] = MappingProxyType({})


class EngineKind(StrEnum):
    """The inference engines that llmgw runs."""

    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMA_CPP = "llama-cpp"


class Device(StrEnum):
    """What an engine computes on."""

    CUDA = "cuda"
    CPU = "cpu"


class SecretRef(NamedTuple):
    """Where a secret is to be found; the secret itself never is a value of this floor."""

    source: str  # "env" | "file"
    name: str  # the variable, or the absolute path

    @property
    def as_json(self) -> dict[str, str]:
        """As the state file writes it."""
        return {self.source: self.name}


class FileArg(NamedTuple):
    """A `{file:}` item of `args`: absolute path, and the digest of the content read while loading."""

    path: str
    digest: str  # "sha256:…"; empty when the file could not be read

    @property
    def as_json(self) -> dict[str, str]:
        """As it is compared: by content."""
        return {"file": self.path, "digest": self.digest}


class GpuRequest(NamedTuple):
    """Which GPUs a model wants."""

    gpu_class: str | None = None
    ids: tuple[str, ...] = ()  # UUID, PCI address or index as text; order kept
    count: int | None = None  # type: ignore[assignment]  # shadows tuple.count, likewise
    share: bool = False


class GroupNode(NamedTuple):
    """One node of an engine over several nodes; its rank is its position."""

    name: str
    address: str  # what the others find it under; its name where the file gives no address

    @property
    def as_json(self) -> str | dict[str, str]:
        """As the state file writes it."""
        return self.name if self.address == self.name else self._asdict()


class Readiness(NamedTuple):
    """Budgets of a start, in seconds."""

    start_timeout: float = 7200.0
    silence_timeout: float = 900.0
    generate: bool = False


class Restart(NamedTuple):
    """What the supervisor does after a crash; `reset_after` in seconds."""

    policy: str = "always"  # always | never
    max_restarts: int = 5
    reset_after: float = 600.0


class Liveness(NamedTuple):
    """When the agent replaces an engine whose process lives: after so many missed rounds in a row; 0: never."""

    failures: int = 0


class ModelSpec(NamedTuple):
    """One entry of `models:` with the defaults merged in."""

    name: str
    model: str
    engine: EngineKind
    revision: str | None = None
    executable: str | None = None
    engine_version: str | None = None
    prefix: tuple[str, ...] = ()
    user: str | None = None
    device: Device = Device.CUDA
    served_model_name: tuple[str, ...] = ()  # never empty after loading: the name is the default
    replicas: int = 1
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    nodes: tuple[GroupNode, ...] = ()  # the only nodes where it runs; several of them are one engine
    quantization: str | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    gpus: GpuRequest = GpuRequest()
    host: str | None = None
    port: int | None = None
    api_key: SecretRef | None = None
    env: Mapping[str, str | SecretRef] = NOTHING
    args: tuple[str | FileArg, ...] = ()
    readiness: Readiness = Readiness()
    restart: Restart = Restart()
    liveness: Liveness = Liveness()
    stop_grace: float = 60.0
    update: str = "recreate"
    adopt: bool = False
    protect: bool = False
    accept: tuple[str, ...] = ()
    labels: Mapping[str, str] = NOTHING
    where: str = ""  # file:line:column of the entry
    positions: Mapping[str, str] = NOTHING  # field -> file:line:column
    config_files: tuple[FileArg, ...] = ()  # what `--config` in `args` names, as it was read while loading

    @property
    def is_group(self) -> bool:
        """Whether each of its engines runs on several nodes."""
        return len(self.nodes) > 1

    @property
    def is_sized_by_count(self) -> bool:
        """Whether `gpus.count` alone says how many GPUs it divides its work over, as llama.cpp can."""
        sizes = (self.tensor_parallel_size, self.pipeline_parallel_size, self.data_parallel_size)
        return self.engine is EngineKind.LLAMA_CPP and self.gpus.count is not None and sizes == (None, None, None)

    @property
    def gpus_per_replica(self) -> int:
        """GPUs that one replica needs on this node: TP x PP x DP over the nodes of its group, 0 on the CPU."""
        if self.device is Device.CPU:
            return 0
        if self.is_sized_by_count and self.gpus.count:
            return self.gpus.count
        world = (self.tensor_parallel_size or 1) * (self.pipeline_parallel_size or 1) * (self.data_parallel_size or 1)
        return world // max(1, len(self.nodes))

    def position(self, field: str) -> str:
        """file:line:column of a field, or of the entry when the field stands in `defaults:` or nowhere."""
        return self.positions.get(field, self.where)


class FabricChoice(NamedTuple):
    """`node.fabric`: what engines of several nodes talk over. The default is the fabric that discovery finds."""

    use_rdma: bool = True  # False: `none`, their nodes talk over TCP sockets
    hcas: tuple[str, ...] = ()  # "mlx5_0:1", or "mlx5_0" for each port of the adapter; empty: found
    socket_interface: str | None = None
    rails: str | None = None  # "routed" | "isolated"


class NodeSettings(NamedTuple):
    """The `node:` block."""

    name: str | None = None
    ports: tuple[int, int] = (8000, 8099)
    cordon: tuple[str, ...] = ()
    held_above_mb: int = DEFAULT_HELD_ABOVE_MB
    fabric: FabricChoice = FabricChoice()


class DesiredState(NamedTuple):
    """The whole state file."""

    source: str  # the file as the user named it, "-" for standard input
    models: tuple[ModelSpec, ...]
    node: NodeSettings = NodeSettings()
    digest: str = ""  # sha256 of the file's bytes
    warnings: tuple[Diagnostic, ...] = ()
