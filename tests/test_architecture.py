"""The floors of the package, the price of its start, and the size of its parts."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "llmgw_reconcile"

# From the ground up; names on one line do not know each other.
FLOORS = (
    {"errors"},
    {"model"},
    {"host"},
    {"statefile", "discovery"},
    {"placement", "engines"},
    {"validate"},
    {"plan"},
    {"supervisor"},
    {"supervise", "render"},
    {"workflow"},
    {"agent", "fleet"},
    {"cli"},
    {"demo", "__main__"},
)
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}
PURE = {"errors", "model", "placement", "engines", "validate", "plan", "render"}
EFFECTS = {"os", "pathlib", "random", "shutil", "socket", "subprocess", "tempfile", "time", "urllib"}
DECIDING = {"statefile", "placement", "validate", "plan"}  # what the process beside every engine has no business with

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
NAMES = [str(path.relative_to(PACKAGE)) for path in MODULES]

MODULE_LINES, FUNCTION_LINES = 350, 60


def floor_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """Every module that is imported, at the top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import absolutely, so that the floor is visible"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports_of(path: Path) -> set[str]:
    """The floors that a module imports; `__version__` of the package itself is on no floor."""
    names = (name.split(".") for name in imports_of(path))
    return {parts[1] for parts in names if parts[0] == PACKAGE.name and parts[1:] != ["__version__"]}


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_a_module_imports_from_its_own_floor_and_from_lower_ones(path: Path) -> None:
    own = floor_of(path)
    assert own in LEVEL, f"give {own} a floor"
    above = {other for other in own_imports_of(path) if other != own and LEVEL[other] >= LEVEL[own]}
    assert not above, f"{own} must not import {sorted(above)}"


@pytest.mark.parametrize("path", [path for path in MODULES if floor_of(path) in PURE], ids=str)
def test_a_pure_floor_touches_nothing(path: Path) -> None:
    assert own_imports_of(path) <= PURE
    assert {name.partition(".")[0] for name in imports_of(path)}.isdisjoint(EFFECTS)


@pytest.mark.parametrize("path", [path for path in MODULES if floor_of(path) == "host"], ids=str)
def test_the_host_floor_knows_values_and_errors_only(path: Path) -> None:
    assert own_imports_of(path) <= {"errors", "model", "host"}


@pytest.mark.parametrize("path", [path for path in MODULES if floor_of(path) == "supervisor"], ids=str)
def test_the_resident_process_carries_nothing_that_decides(path: Path) -> None:
    assert own_imports_of(path).isdisjoint(DECIDING)


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_a_module_says_what_it_is_and_stays_small(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= MODULE_LINES
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES]
    assert not long


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_import_the_command_line_and_nothing_else(argument: str) -> None:
    probe = "import sys; from llmgw_reconcile.cli.main import main; main(sys.argv[1:]); print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe, argument], capture_output=True, text=True, check=True)
    loaded = {line for line in done.stdout.splitlines() if not line.startswith(" ")}
    assert "click" in loaded
    heavy = {"asyncio", "dataclasses", "http", "jsonschema", "pathlib", "rich", "subprocess", "urllib", "yaml"}
    assert loaded.isdisjoint(heavy)
    ours = {name for name in loaded if name.partition(".")[0] == PACKAGE.name}
    assert ours == {f"{PACKAGE.name}{rest}" for rest in ("", ".cli", ".cli.main", ".errors")}
