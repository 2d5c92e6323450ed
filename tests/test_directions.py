"""Imports go down: nothing imports what stands above it in the order that `pyproject.toml` states."""

from __future__ import annotations

import ast
import tomllib
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.source_files import FILES, PACKAGE, ROOT, imported, imports

(CONTRACT,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [[name.strip() for name in layer.split("|")] for layer in CONTRACT["layers"]]
"""Top-level modules and packages of `layout_ir`, the highest first; those of one layer are independent."""


def rank(module: str) -> tuple[int, str]:
    """How far up `module` stands, and the name by which the contract knows it. The package itself is on top of all."""
    top = [*module.split("."), ""][1]
    return next((k for k, layer in enumerate(reversed(LAYERS)) if top in layer), len(LAYERS)), top


def is_upward(importer: str, module: str) -> bool:
    (here, own), (there, other) = rank(importer), rank(module)
    return there > here or (there == here and own != other)


def test_every_module_has_its_layer():
    known = {name for layer in LAYERS for name in layer}
    assert {rank(module)[1] for module in FILES} - {""} == known


def test_imports_go_down():
    assert not sorted((a, b) for a in FILES for b in imported(a) if is_upward(a, b))


@pytest.mark.parametrize("room", ["passes", "backends"])
def test_modules_of_a_room_import_each_other_in_no_circle(room: str):
    inside = {module for module in FILES if f"{module}.".startswith(f"{PACKAGE}.{room}.")}
    try:
        TopologicalSorter({module: imported(module) & inside for module in inside}).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("layout_ir.algebra.format", "def f():\n    from layout_ir.dialects import layout"),
        ("layout_ir.passes.strip", "if TYPE_CHECKING:\n    from layout_ir.backends.llvm import Reorder"),
        ("layout_ir.foreign.scalar", "import layout_ir.frontends.onnx"),
        ("layout_ir.arrays.storage", "import layout_ir"),
        ("layout_ir.passes.strip", "from layout_ir import registry"),
    ],
)
def test_negative_an_import_of_something_higher_is_seen(importer: str, statement: str):
    (higher,) = imports(ast.parse(statement))
    assert is_upward(importer, higher)
