"""The algebra's modules build on each other in the order that the package states, with one import inside a function."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import layout_ir.algebra

FOLDER = Path(str(layout_ir.algebra.__file__)).parent
ORDER = [
    re.split(r", ", line[4:].split("   ")[0].strip())
    for line in str(layout_ir.algebra.__doc__).splitlines()
    if re.match(r"    \w+(, \w+)*  ", line)
]
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
FREE = {"cached_property"}
"""Modules that import nothing of the algebra."""


def imports(module: str, *, in_functions: bool) -> set[str]:
    """The algebra's modules that `module` imports at run time: when it is loaded, or when a function is called."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))
    top = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node not in top]
    typing = {
        inner
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    result: set[str] = set()
    for node in [f for f in found if f not in typing] if in_functions else top:
        if node.module == "layout_ir.algebra":
            result |= {alias.name for alias in node.names}
        elif node.module and node.module.startswith("layout_ir.algebra."):
            result.add(node.module.rpartition(".")[2])
    return result


def test_every_module_has_its_place():
    assert set(LEVEL) | FREE == {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}


def test_modules_import_those_above_them_in_the_list_or_beside_them():
    for module in LEVEL:
        for other in imports(module, in_functions=False) - FREE:
            assert LEVEL[other] <= LEVEL[module], f"{module} imports {other}"


def test_one_import_stands_inside_a_function():
    assert {m: found for m in (*LEVEL, *FREE) if (found := imports(m, in_functions=True))} == {
        "format": {"binding"}
    }
