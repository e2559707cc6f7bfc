import json
import shutil
import subprocess
import sys

import pytest

from llmgw_reconcile.errors import LlmgwError
from llmgw_reconcile.host import schema_files
from llmgw_reconcile.host.schema_files import schema_text


def test_a_schema_of_the_checkout_is_found():
    assert json.loads(schema_text("state"))["type"] == "object"


def test_a_schema_that_is_not_there_is_named():
    with pytest.raises(LlmgwError, match="cannot find the schema 'sonnet'"):
        schema_text("sonnet")


def test_an_installed_package_brings_its_own_schemas(tmp_path):
    package = tmp_path / "llmgw_reconcile"
    for part in ("host", "schemas"):
        (package / part).mkdir(parents=True)
    (package / "schemas/state.schema.json").write_text('"installed"')
    shutil.copy(schema_files.__file__, package / "host/schema_files.py")
    shutil.copy(sys.modules["llmgw_reconcile.errors"].__file__, package / "errors.py")
    program = "from llmgw_reconcile.host.schema_files import schema_text; print(schema_text('state'))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ('"installed"\n', "")
