"""Imports go down: nothing imports what stands above it in the order that `pyproject.toml` states."""

from __future__ import annotations

import ast
import os
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "layout_ir"
(CONTRACT,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = [[name.strip() for name in layer.split("|")] for layer in CONTRACT["layers"]]
"""Top-level modules and packages of `layout_ir`, the highest first; those of one layer are independent."""


def module_files() -> dict[str, Path]:
    """Name of every module -> its file; `passes` and `backends` are found where they really are."""
    found: dict[str, Path] = {}
    for top in (PACKAGE, "passes", "backends"):
        for folder, _, names in os.walk(ROOT / top):  # which does not follow links
            for name in names:
                parts = (Path(folder) / name).relative_to(ROOT).with_suffix("").parts
                parts = parts if top == PACKAGE else (PACKAGE, *parts)
                if name.endswith(".py"):
                    found[".".join(parts).removesuffix(".__init__")] = Path(folder) / name
    return found


FILES = module_files()


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules of this package that are imported anywhere in `tree`: in functions and for types as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            module = node.module or ""
            if module.split(".")[0] == PACKAGE:
                for alias in node.names:
                    name = f"{module}.{alias.name}"
                    yield name if name in FILES else module


@cache
def graph() -> dict[str, set[str]]:
    """Name of every module -> those that it imports. Not read before a test asks: each process collects this file."""
    return {name: set(imports(ast.parse(path.read_text()))) - {name} for name, path in FILES.items()}


def rank(module: str) -> tuple[int, str]:
    """How far up `module` stands, and the name by which the contract knows it. The package itself is on top of all."""
    top = [*module.split("."), ""][1]
    return next((k for k, layer in enumerate(reversed(LAYERS)) if top in layer), len(LAYERS)), top


def is_upward(importer: str, imported: str) -> bool:
    (here, own), (there, other) = rank(importer), rank(imported)
    return there > here or (there == here and own != other)


def test_every_module_has_its_layer():
    known = {name for layer in LAYERS for name in layer}
    assert {rank(module)[1] for module in FILES} - {""} == known


def test_imports_go_down():
    assert not sorted((a, b) for a, seen in graph().items() for b in seen if is_upward(a, b))


@pytest.mark.parametrize("room", ["passes", "backends"])
def test_modules_of_a_room_import_each_other_in_no_circle(room: str):
    inside = {module for module in FILES if f"{module}.".startswith(f"{PACKAGE}.{room}.")}
    try:
        TopologicalSorter({module: graph()[module] & inside for module in inside}).prepare()
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
    (imported,) = imports(ast.parse(statement))
    assert is_upward(importer, imported)
