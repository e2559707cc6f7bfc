"""Compare two state files, model by model and field by field, without a node."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from llmgw_reconcile.model.desired import DesiredState, ModelSpec, NodeSettings
from llmgw_reconcile.model.spec import Document, engines_of
from llmgw_reconcile.plan.actions import FieldChange
from llmgw_reconcile.plan.diff import diff_documents


class Difference(StrEnum):
    """What became of a model from one file to the other."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    SAME = "same"


class ModelDiff(NamedTuple):
    """One model, and what changed of it; of one that was added or removed nothing is compared."""

    name: str
    difference: Difference
    changes: tuple[FieldChange, ...] = ()


class StateDiff(NamedTuple):
    """All models of the new file in its order, then those that only the old one has; and the `node:` block."""

    models: tuple[ModelDiff, ...]
    node: tuple[FieldChange, ...] = ()

    def count(self, difference: Difference) -> int:
        """How many models it became of."""
        return sum(model.difference is difference for model in self.models)

    @property
    def is_empty(self) -> bool:
        """Whether both files ask for the same."""
        return not self.node and all(model.difference is Difference.SAME for model in self.models)


def diff_states(before: DesiredState, after: DesiredState) -> StateDiff:
    """What the new file asks for differently. Files that `args` name are compared by their paths and digests."""
    old, new = ({model.name: model for model in state.models} for state in (before, after))
    models = [_diff_models(old.get(name), model) for name, model in new.items()]
    models += [ModelDiff(name, Difference.REMOVED) for name in old if name not in new]
    return StateDiff(tuple(models), _diff_settings(before.node, after.node))


def _diff_models(before: ModelSpec | None, after: ModelSpec) -> ModelDiff:
    if before is None:
        return ModelDiff(after.name, Difference.ADDED)
    changes = (
        *diff_documents(_engine_document(before), _engine_document(after), forces_replace=True),
        *diff_documents(_bookkeeping(before), _bookkeeping(after), forces_replace=False),
    )
    return ModelDiff(after.name, Difference.CHANGED if changes else Difference.SAME, changes)


def _engine_document(model: ModelSpec) -> Document:
    """What its engines run as, the GPUs of all of them together."""
    (engine,) = engines_of(model._replace(replicas=1))
    if not model.gpus.ids:
        return engine.document
    return engine.document | {"gpus": engine.document["gpus"] | {"ids": list(model.gpus.ids)}}


def _bookkeeping(model: ModelSpec) -> Document:
    """What changes without a restart of the engines that stay."""
    (engine,) = engines_of(model._replace(replicas=1))
    return engine.bookkeeping | {"replicas": model.replicas}


def _diff_settings(before: NodeSettings, after: NodeSettings) -> tuple[FieldChange, ...]:
    return diff_documents(_json(before), _json(after), forces_replace=False)


def _json(value: Any) -> Any:
    """A value of the model as JSON values."""
    if hasattr(value, "_asdict"):
        return {name: _json(inner) for name, inner in value._asdict().items()}
    if isinstance(value, Mapping):
        return {name: _json(inner) for name, inner in value.items()}
    return list(map(_json, value)) if isinstance(value, tuple) else value
