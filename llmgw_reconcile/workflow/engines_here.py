"""The engines that are installed where llmgw would look for them, with their versions where that is cheap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from llmgw_reconcile.discovery.package_version import package_version
from llmgw_reconcile.engines.installed import version_question
from llmgw_reconcile.engines.version import version_in
from llmgw_reconcile.host.tool import finish_tools, start_tool
from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.workflow.facts import find_executable

ANSWER_SECONDS = (
    1.0  # llama-server names its version in milliseconds; the others load libraries first, and are not asked
)


class InstalledEngine(NamedTuple):
    """An engine on this node; `version` is None where it is not known."""

    kind: EngineKind
    executable: str
    version: str | None


def installed_engines(environ: Mapping[str, str]) -> tuple[InstalledEngine, ...]:
    """One of each kind at most: what an entry without `executable` would start."""
    found = []
    for kind in EngineKind:
        executable, _ = find_executable(ModelSpec(name="any", model="any", engine=kind), environ)
        if executable is not None:
            found.append(InstalledEngine(kind, executable, _version(kind, executable)))
    return tuple(found)


def _version(kind: EngineKind, executable: str) -> str | None:
    if kind is not EngineKind.LLAMA_CPP:
        return package_version(executable, str(kind))
    (answer,) = finish_tools([start_tool(version_question(kind, executable), timeout=ANSWER_SECONDS)])
    return version_in(f"{answer.stdout}\n{answer.stderr}")
