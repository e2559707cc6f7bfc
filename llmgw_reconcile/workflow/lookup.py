"""What has to be looked up on this node for a plan, each thing once: models on its disk, and installed engines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from llmgw_reconcile.discovery.engine_version import Answers, Questions, cache_folder, recall
from llmgw_reconcile.discovery.model_files import content_marks, find_in_cache
from llmgw_reconcile.discovery.package_version import package_version
from llmgw_reconcile.engines.arguments import argument_value
from llmgw_reconcile.engines.installed import help_questions, version_question
from llmgw_reconcile.model.desired import EngineKind, ModelSpec
from llmgw_reconcile.model.installed import Installed
from llmgw_reconcile.workflow.host import Host, own_account

if TYPE_CHECKING:
    from llmgw_reconcile.model.checkpoint import Checkpoint


class Lookup:
    """Lazy: what no engine of the plan needs is not looked up, nor is the code for it loaded.

    Nothing is written, and no engine is asked.
    """

    def __init__(self, host: Host) -> None:
        self._home = own_account().home
        self._cache_folder = cache_folder(host.environ)
        self._checkpoints: dict[str, Checkpoint | None] = {}
        self._marks: dict[str, dict[str, str]] = {}
        self._answers: dict[tuple[EngineKind, str], Answers | None] = {}
        self._versions: dict[tuple[EngineKind, str], str | None] = {}
        self._installed: dict[tuple[EngineKind, str], Installed] = {}

    def checkpoint(self, model: ModelSpec) -> Checkpoint | None:
        """What the model's files say of it, from their headers; None where they are not on this disk."""
        path = self._path(model)
        if path is None:
            return None
        if path not in self._checkpoints:
            from llmgw_reconcile.discovery.checkpoint import read_checkpoint  # a plan that starts nothing needs none

            self._checkpoints[path] = read_checkpoint(path, is_whole=path == model.model)
        return self._checkpoints[path]

    def content_marks(self, model: ModelSpec) -> dict[str, str]:
        """What tells this content of the model from another one; of a hub id in the cache, its commit."""
        path = self._path(model)
        if path is None:
            return {}
        if path != model.model:
            return {"commit": os.path.basename(path)}
        if path not in self._marks:
            self._marks[path] = content_marks(path)
        return self._marks[path]

    def version(self, kind: EngineKind, executable: str) -> str | None:
        """The version of an installed engine: as it said when it was asked, else as its package is recorded."""
        if (kind, executable) not in self._versions:
            told = self._told_version(kind, executable)
            self._versions[kind, executable] = told or package_version(executable, str(kind))
        return self._versions[kind, executable]

    def installed(self, kind: EngineKind, executable: str) -> Installed:
        """The same with its flags, which take a while to read; only an engine that was asked told them."""
        if (kind, executable) not in self._installed:
            from llmgw_reconcile.engines.help_text import parse_help

            answers = self._recalled(kind, executable)
            options = parse_help(answers.help) if answers is not None else ()
            self._installed[kind, executable] = Installed(self.version(kind, executable), options)
        return self._installed[kind, executable]

    def was_asked(self, kind: EngineKind, executable: str) -> bool:
        """Whether it was ever asked, as it is now."""
        return self._recalled(kind, executable) is not None

    def _told_version(self, kind: EngineKind, executable: str) -> str | None:
        answers = self._recalled(kind, executable)
        if answers is None:
            return None
        from llmgw_reconcile.engines.version import version_in

        return version_in(answers.version)

    def _recalled(self, kind: EngineKind, executable: str) -> Answers | None:
        if (kind, executable) not in self._answers:
            self._answers[kind, executable] = recall(self._cache_folder, questions_for(kind, executable))
        return self._answers[kind, executable]

    def _path(self, model: ModelSpec) -> str | None:
        if model.model.startswith("/"):
            return model.model
        variables = {name: value for name, value in model.env.items() if isinstance(value, str)}
        if folder := argument_value(model, "--download-dir"):
            variables["HF_HUB_CACHE"] = folder
        return find_in_cache(model.model, model.revision, variables, self._home)


def questions_for(kind: EngineKind, executable: str) -> Questions:
    """What to ask an installed engine."""
    return Questions(version_question(kind, executable), help_questions(kind, executable))
