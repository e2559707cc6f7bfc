"""What to ask an installed engine about itself, as command lines."""

from __future__ import annotations

from llmgw_reconcile.engines.kind import is_python
from llmgw_reconcile.model.desired import EngineKind

Question = tuple[str, ...]


def version_question(kind: EngineKind, executable: str) -> Question:
    """What makes the engine name its version. An interpreter is asked for that of the package: it loads nothing."""
    if is_python(executable) and kind is not EngineKind.LLAMA_CPP:
        return (executable, "-c", f"import importlib.metadata as m; print(m.version({str(kind)!r}))")
    return (executable, "version" if kind is EngineKind.SGLANG else "--version")


def help_questions(kind: EngineKind, executable: str) -> tuple[Question, ...]:
    """What makes the engine list all of its flags, in the order to try: older releases know the last form only."""
    if kind is EngineKind.LLAMA_CPP:
        return ((executable, "--help"),)
    if kind is EngineKind.SGLANG:
        entry = ("-m", "sglang.launch_server") if is_python(executable) else ("serve",)
        return ((executable, *entry, "--help"),)
    module = ("-m", "vllm.entrypoints.cli.main") if is_python(executable) else ()
    return ((executable, *module, "serve", "--help=all"), (executable, *module, "serve", "--help"))
