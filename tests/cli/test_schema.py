import json
from pathlib import Path

import pytest

from llmgw_reconcile.cli.main import main

SCHEMAS = Path(__file__).parents[2] / "schemas"


def test_the_schema_of_state_files_is_printed_as_it_was_written(capsys):
    assert main(["schema", "state"]) == 0
    assert capsys.readouterr() == ((SCHEMAS / "state.schema.json").read_text(), "")


@pytest.mark.parametrize("name", ["state", "inventory", "plan", "status", "snapshot"])
def test_every_document_of_llmgw_has_its_schema(name, capsys):
    assert main(["schema", name]) == 0
    assert json.loads(capsys.readouterr().out)["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_an_unknown_name_is_a_usage_error_that_lists_the_names(capsys):
    assert main(["schema", "sate"]) == 64
    assert "'state', 'inventory', 'plan', 'status', 'snapshot'" in capsys.readouterr().err
