"""A node, as it was found, to a first state file for it: commented, valid, and not larger than what fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from llmgw_reconcile.engines.catalog import KINDS
from llmgw_reconcile.model.desired import EngineKind
from llmgw_reconcile.model.gpu import Gpu
from llmgw_reconcile.model.inventory import Inventory
from llmgw_reconcile.placement.gpus import UNKNOWN_CLASS
from llmgw_reconcile.statefile.entry import commented, entry_lines, state_text
from llmgw_reconcile.workflow.engines_here import InstalledEngine

PORTS = range(8000, 8100)
SMALL_MB = 20_000  # a card with less gets a smaller example

_MORE = """\
More that a model may say (`llmgw schema state` lists everything):
tensor_parallel_size: 2                     # GPUs that share each layer
max_model_len: 32768                        # tokens; the default is the model's own
replicas: 2                                 # the second one listens on port + 1
api_key: {file: /etc/llmgw/api-key}         # secrets are references, never values
env: {HF_HOME: /data/huggingface}
args: [--enable-prefix-caching]             # put on the command line as they are
readiness: {start_timeout: 2h}              # a start that takes longer has failed
labels: {team: search}                      # a change of these restarts nothing"""


def starter_state(inventory: Inventory, engines: Sequence[InstalledEngine], busy: Collection[int]) -> str:
    """The text of the file; `busy` are ports that somebody listens on.

    The example model runs on the first engine found. Without one, or where the GPUs are not known, it is a comment.
    """
    head = [
        f"What {inventory.node} is to run. What runs here and is not named is stopped.",
        "  llmgw plan FILE     what would change; touches nothing",
        "  llmgw apply FILE    the same diff, then the change itself",
        "Editors complete and check this file once `llmgw schema state > state.schema.json` was run beside it.",
        "",
        *_findings(inventory, engines),
    ]
    cards = [part for gpu in inventory.gpus for part in gpu.parts]
    kinds = [engine.kind for engine in engines] or [EngineKind.VLLM]
    kind = kinds[0] if cards or EngineKind.LLAMA_CPP not in kinds else EngineKind.LLAMA_CPP  # the one for a CPU
    port = next((port for port in PORTS if port not in busy), PORTS.start)
    entry = entry_lines(_example(kind, port, cards), {"model": "a name of the hub, or an absolute path"})
    if engines and inventory.gpus_known:
        entry += (f"    # {line}" for line in _MORE.splitlines())
    else:
        reason = "install an engine first" if inventory.gpus_known else "the GPUs could not be read"
        entry = commented(entry, [f"An example ({reason}):"])
    return state_text(head, {"name": inventory.node}, [entry])


def _findings(inventory: Inventory, engines: Sequence[InstalledEngine]) -> list[str]:
    found = {engine.kind: engine for engine in engines}
    lines = ["Found on this node:", f"  GPUs          {_cards(inventory)}"]
    for kind in EngineKind:
        engine = found.get(kind)
        name = KINDS[kind].executable
        lines.append(
            f"  {name:<12}  {engine.version or 'version unknown'}, {engine.executable}"
            if engine is not None
            else f"  {name:<12}  not on PATH; `executable:` names one elsewhere"
        )
    return lines


def _cards(inventory: Inventory) -> str:
    if not inventory.gpus_known:
        return "could not be read; `llmgw doctor` says why"
    classes = Counter(gpu.gpu_class for gpu in inventory.gpus)
    return ", ".join(f"{count} x {name}" for name, count in sorted(classes.items())) or "none: `device: cpu`"


def _example(kind: EngineKind, port: int, cards: Sequence[Gpu]) -> dict[str, Any]:
    """A small model that every engine of that kind runs, on one card of the most frequent class."""
    classes = Counter(card.gpu_class for card in cards)
    frequent = max(sorted(classes), key=lambda name: classes[name], default=None)
    memory = min((card.memory_total_mb or 0 for card in cards if card.gpu_class == frequent), default=0)
    size = "8B" if memory >= SMALL_MB else "0.6B"
    fields: dict[str, Any] = {
        "name": f"qwen3-{size.lower().replace('.', '-')}",
        "model": f"Qwen/Qwen3-{size}" + ("-GGUF:Q8_0" if kind is EngineKind.LLAMA_CPP else ""),
        "engine": str(kind),
        "port": port,
    }
    if frequent is None:
        return fields | {"device": "cpu"}
    return fields if frequent == UNKNOWN_CLASS else fields | {"gpus": {"class": frequent}}
