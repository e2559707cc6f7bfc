"""The example state files are right: for editors, for the reference validator, and for llmgw."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from llmgw_reconcile.statefile.layout import canonical_layout
from llmgw_reconcile.statefile.load import load_state, state_schema

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "states").glob("*.yaml"))
MODELINE = "# yaml-language-server: $schema=../schemas/state.schema.json\n"
examples = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)


@examples
def test_editors_find_the_schema_of_an_example(path: Path) -> None:
    assert path.read_text().startswith(MODELINE)


@examples
def test_an_example_fits_the_schema(path: Path) -> None:
    schema = json.loads((ROOT / "schemas" / "state.schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(path.read_text()))


@examples
def test_an_example_loads_without_a_warning(path: Path) -> None:
    assert load_state(str(path), path.read_bytes(), base=str(path.parent)).warnings == ()


@examples
def test_an_example_is_laid_out_as_fmt_would(path: Path) -> None:
    assert canonical_layout(path.read_bytes(), state_schema()) == path.read_bytes()


def test_the_node_uses_all_of_its_eight_gpus() -> None:
    path = ROOT / "states" / "node.yaml"
    state = load_state(str(path), path.read_bytes(), base=str(path.parent))
    assert {model.name: model.gpus_per_replica * model.replicas for model in state.models} == {
        "llama-70b": 4,
        "qwen-32b": 2,
        "embed": 2,
    }
